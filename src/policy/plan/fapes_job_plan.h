// One job's plan in FaPES (SoCC '24, §5.3): its devices in each round, so that completion time plus
// price is least. Pure.
//
//   minimise  d(τ) + κ × Σ price over rounds and devices,  τ the round in which the job completes
//
// A dynamic program goes over rounds and units of work (P(τ, W), reading A5). Its cell keeps the
// cheapest way there with the placement in that round, as the next round's placement rests on it
// (reading A4). A job may begin in a later round, but does not pause then (reading A7). The batch,
// and with it the throughput, is that of the best goodput at the present noise (A9, A10).
#pragma once

#include <optional>

#include "policy/plan/board.h"
#include "policy/plan/fapes_sizes.h"

namespace sluice::policy {

struct FapesRules {
  Nanos round = Seconds(600);
  double kappa = 1;  // a price's weight against a time
  int units = 64;    // of work
  // Of a round in which workers start or change: FaPES's checkpoint, upload, download and container
  // (its Table 2).
  Nanos restart = Millis(5680);
};

// Returns the best schedule on the board, on which the job has none; nothing: the job cannot
// complete within the board's rounds. If it may not wait, it begins in the present round.
//
// A job that needs more than half of the board's rounds at its fastest is planned for the work of
// these, since FaPES never starts one that needs more than all.
std::optional<Schedule> fapes_job_plan(const Board& board, const Contender& job,
                                       const FapesSizes& sizes, const FapesRules& rules,
                                       bool may_wait);

}  // namespace sluice::policy
