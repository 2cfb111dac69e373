// plan_fapes: FaPES (SoCC '24). At each round it chooses running jobs that do badly
// (fapes_filter.h) and plans them anew with those that wait, one after the other (fapes_order.h). A
// plan is the devices of all rounds until the job completes (fapes_job_plan.h). It stands on a
// board, whose prices keep later jobs from loaded nodes and rounds (board.h).
//
//   - All other running jobs keep their plans. One that has not completed at its plan's end keeps
//     its devices, a round at a time (reading A15).
//   - A running job is planned anew in any case if its plan does not fit the devices any more, if
//     its noise has more than doubled or halved since (reading A10), or if it has been measured for
//     the first time. A job that was never measured has a granule for a round.
//   - A job that has waited `pop_up` rounds, or runs, does not wait by choice.
//   - Prices do not count devices that become free between rounds, unless `at_events` is set
//     (reading A16).
#pragma once

#include "policy/plan/deal.h"

namespace sluice::policy {

struct FapesSettings {
  Nanos round = Seconds(600);
  int granule = 2;
  double kappa = 1;
  int units = 64;
  int pop_up = 3;
  Nanos restart = Millis(5680);
  bool at_events = false;

  static std::span<const Setting<FapesSettings>> settings();
};

Dealt fapes(Table& table, const FapesSettings& settings);

std::vector<Action> plan_fapes(Input& input);

}  // namespace sluice::policy
