// growth_search: Dilu's profiling (ASPLOS '25, §3.2): an instance's batch size, request and limit
// in few trials. A trial runs the model at one share of a device.
//
// Inference, hybrid growth search: begins at batch 1 and the least share. A trial that is in time
// doubles the batch, one that is late raises the share by a step. Among trials in time
//
//   throughput efficacy = batch ÷ (time × share)
//
// rises with the batch up to the best one and falls from there, so the first fall ends the search.
// The best is the star: its share is the request, twice that (at most the whole) the limit.
//
// Training, binary search: the share whose throughput is within 2 % of a part of the whole
// device's. The request keeps 80 % of it, the limit all of it.
//
// Pure. The shares are of the enforcement under which a trial runs.
#pragma once

#include <functional>
#include <optional>

#include "base/clock.h"
#include "model/slice.h"

namespace sluice::policy {

struct GrowthBounds {
  Nanos in_time = Nanos::max();  // the longest that a batch may take
  int largest_batch = 1;
  Share step{100};          // also the least share
  double limit_factor = 2;  // limit ÷ request
};

struct Star {
  int batch = 1;
  Quota quota;
  Nanos time{0};  // of one batch at the request
  int trials = 0;

  bool operator==(const Star&) const = default;
};

// Returns nothing where the model cannot run at that point; such a trial is late.
using BatchTime = std::function<std::optional<Nanos>(int batch, Share share)>;

// Returns nothing if not even one request on the whole device is in time.
std::optional<Star> growth_search(const GrowthBounds& bounds, const BatchTime& time);

struct TrainingShares {
  Quota quota;
  int trials = 0;
};

// `throughput` is that of a worker with the share; it does not fall with more.
TrainingShares training_search(const std::function<double(Share)>& throughput);

}  // namespace sluice::policy
