// plan_fixed: baselines for training jobs, without elasticity. Each job gets exactly maxWorkers
// (minWorkers, if that is 0) whole idle devices, and keeps them until it ends. The first job that
// waits gets them all or holds up the jobs behind it. A worker whose device failed or is cordoned
// is replaced before any job begins.
//
//   fifo  in order of submission
//   sjf   in order of length: the job's samples ÷ its throughput with its workers where both are
//         known, before those of unknown length, by epochs
#pragma once

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

std::vector<Action> plan_fifo(Input& input);
std::vector<Action> plan_sjf(Input& input);

}  // namespace sluice::policy
