// plan_dilu: finds the request and the limit of a job's workers by trials while it trains, as Dilu
// profiles training (ASPLOS '25), and places the workers by Dilu's Algorithm 1 (place_dilu.h).
//
// A job has maxWorkers workers (minWorkers, if that is 0), each on a device of its own, or none.
// All have one quota of time on the whole width. While they are alone on their devices:
//
//   1. request = limit = 100 %: T1, in samples per second, from one `trial` after the begin on.
//   2. Binary search for the request, low = 0, high = 100 %: request = limit = the mean of the two.
//      T < p·T1 → low, else high, until T is within ±tolerance of p·T1 (p = `keeps`, 80 %) or the
//      interval is shorter than `tolerance` (2 %): then high, which is known to suffice.
//   3. The same for the limit, p = 1, from low = the request, which is known to be too little.
//
// A job that is not measured yet and is not alone requests `floor`, and has half a device as its
// limit. For a minute after inference needed its device, a worker has `floor` alone.
//
// Reading of p = 1. Every share that saturates the job is within ±2 % of T1, so the paper's stop
// would end at the first. Here T ≥ (1 − tolerance)·T1 lowers high, and only the interval ends the
// search. T1 and T are one trial each. Under noise of ±1 % the limit brings 0.98 · 0.99 ÷ 1.01 = 96
// % of T1 at least, and is at most `tolerance` above the share that saturates the job.
//
// A trial counts the samples between a report after the share has settled and one at least `trial`
// later, by the times of these reports. It begins anew when the job's workers or their quota
// change, or another instance comes to their devices. With another batch the search begins anew. A
// job that reports nothing keeps the quota that it has.
//
// What was found is kept in the Memory, by job, revision and number of workers, and used by later
// workers. A lost memory begins anew. Ω, γ and memory are kept where a worker starts; a resize
// keeps Ω. Jobs come by priority, submission and name, running ones first; one that does not fit
// holds up no other. Pure.
#pragma once

#include <span>
#include <vector>

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

struct DiluPlanSettings {
  Nanos trial = Seconds(10);  // the paper's take about 30 s
  Share keeps{800};           // p of the request
  Share tolerance{20};
  Share floor{50};

  static std::span<const Setting<DiluPlanSettings>> settings();
};
inline constexpr int kDiluMemory = 1;  // the memory's version

std::vector<Action> plan_dilu(Input& input);

}  // namespace sluice::policy
