// plan_elasticflow: ElasticFlow (ASPLOS '23) without deadlines, as FaPES compares with it. Jobs
// have powers of two of devices, which pack without gaps.
//
//   1. A job that has devices keeps at least its first level: the smallest power of two that is not
//      below leastDevices. A job without devices is admitted if its first level still fits.
//   2. Each round the other devices go, level by level, to the job whose throughput gains most by
//      each of them.
//
// Throughput is relative to that of a device of the first level, so that jobs compare: a gain of 1
// is linear scaling. Equal gains go to the job with fewer devices. A job that was not measured yet
// comes last, as what it gains is not known.
#pragma once

#include "policy/plan/deal.h"

namespace sluice::policy {

struct ElasticFlowSettings {
  Nanos round = Seconds(60);  // its published slot

  static std::span<const Setting<ElasticFlowSettings>> settings();
};

// Returns how many workers each job has.
std::vector<int> elasticflow(const Table& table);

std::vector<Action> plan_elasticflow(Input& input);

}  // namespace sluice::policy
