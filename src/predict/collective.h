// How long an all-reduce takes among processes of one machine, as a line in the bytes whose
// coefficients follow from the number of ranks K (α–β model, Hockney 1994):
//
//   T(K, b) = launch + s·hop + b·(s/K·link + s·shared)        s = 2·(K − 1)
//
// A ring takes s steps, each of which sends b/K bytes from every rank: s·hop + s/K·b·link. Ranks of
// one machine also share what carries the bytes (memory, cores): together they move s·b of them.
// All four coefficients are fitted and none is negative, so T grows with both bytes and ranks.
#pragma once

#include <optional>
#include <span>

namespace sluice::predict {

struct CollectiveModel {
  double launch = 0, hop = 0;   // seconds
  double link = 0, shared = 0;  // seconds per byte

  bool operator==(const CollectiveModel&) const = default;
};

// Returns 0 for one rank, or without bytes.
double all_reduce_seconds(const CollectiveModel& model, int ranks, double bytes);

struct CollectiveSample {
  int ranks = 2;
  double bytes = 0;
  double seconds = 0;

  bool operator==(const CollectiveSample&) const = default;
};

// Returns the model with the least sum of squared relative errors, ((T − t)/t)². Nothing without
// samples; those with one rank, no bytes or no time do not count. Samples of one number of ranks
// cannot tell the terms apart: they count as a ring's alone, and if all have about the same bytes,
// as the bytes' alone. Pure.
std::optional<CollectiveModel> fit_collective(std::span<const CollectiveSample> samples);

}  // namespace sluice::predict
