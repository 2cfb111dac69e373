#include "policy/replicas.h"

#include <algorithm>
#include <tuple>

#include "policy/capability.h"
#include "policy/choose_slice.h"
#include "policy/explain.h"
#include "policy/shortage.h"

namespace sluice::policy {
namespace {

struct Sorted {
  std::vector<size_t> good;   // newest last
  std::vector<size_t> unfit;  // another slice, or a drained device
  int ready = 0;              // of the good ones
};

Sorted sort_out(ClusterPlan& plan, const Demand& demand, const Slice& slice) {
  Sorted sorted;
  for (const size_t i : plan.serving(demand)) {
    const Instance& instance = plan.at(i).instance;
    const bool fits = instance.slice.quota == slice.quota &&
                      instance.slice.sm == plan.device(instance.device).width(slice.sm);
    if (!fits || plan.on_drained(i)) {
      sorted.unfit.push_back(i);
      continue;
    }
    sorted.good.push_back(i);
    sorted.ready += instance.state == InstanceState::kReady;
  }
  std::stable_sort(sorted.good.begin(), sorted.good.end(), [&](size_t a, size_t b) {
    const Instance &x = plan.at(a).instance, &y = plan.at(b).instance;
    return std::tie(x.started, x.id) < std::tie(y.started, y.id);
  });
  return sorted;
}

Reason why_unmet(const ClusterPlan& plan, const Replicas& replicas, const Sorted& sorted,
                 int missing, const Predictor& predictor) {
  const Slice& slice = replicas.slice;
  Reason reason =
      shortage(plan, predictor, slice_text(slice.sm, slice.quota.request), slice.memory);
  std::string lead = replicas.because + " " + std::to_string(missing) + " could not be started";
  for (const size_t i : sorted.unfit) {
    const Instance& instance = plan.at(i).instance;
    if (plan.on_drained(i))
      lead += "; " + instance.id + " stays on the cordoned device " + instance.device;
  }
  reason.text.insert(0, lead + ": ");
  reason.numbers.insert(reason.numbers.begin(), replicas.numbers.begin(), replicas.numbers.end());
  return reason;
}

}  // namespace

int instance_batch(const Demand& demand, const Slice& slice, const Predictor& predictor) {
  static const HasGpuSettings kPlain;  // no borrowing, the whole objective
  const Capability capability(demand, kPlain, predictor);
  if (!capability.known()) return std::max(1, demand.spec->batching.max_size);
  return capability.best_batch(slice.sm, slice.quota.limit).value_or(1);
}

Bytes instance_memory(const Demand& demand, const Predictor& predictor) {
  if (demand.spec->memory > 0) return demand.spec->memory;
  return predictor.memory(demand.function(), demand.revision).value_or(0);
}

void hold_replicas(ClusterPlan& plan, const Demand& demand, const Replicas& replicas,
                   const Predictor& predictor) {
  const Sorted sorted = sort_out(plan, demand, replicas.slice);
  const int count = static_cast<int>(sorted.good.size());
  const Slice& slice = replicas.slice;
  for (int n = count; n < replicas.at_least; ++n) {
    auto c = exact_slice(plan.devices(), slice.sm, slice.quota.request, slice.memory,
                         DeviceOrder::kUsedFirst);
    if (!c) {
      const int missing = replicas.at_least - n;
      plan.unmet(demand, demand.rate() * missing / replicas.at_least,
                 why_unmet(plan, replicas, sorted, missing, predictor));
      break;
    }
    plan.start(demand, *c->device, c->opening, slice.quota, slice.memory, replicas.batch,
               {"start",
                replicas.because + " Started: " + slice_text(c->opening.sm, slice.quota.request) +
                    " on " + c->device->device().id + ".",
                replicas.numbers});
  }
  for (int n = count; n > replicas.at_most; --n) {
    plan.stop(sorted.good[n - 1], {"stop", replicas.because, replicas.numbers});
  }
  if (sorted.ready < replicas.at_least) return;
  for (const size_t i : sorted.unfit) {
    const std::string device = plan.at(i).instance.device;
    const std::string why = plan.on_drained(i) ? "Device " + device + " is cordoned."
                                               : "It holds another slice than it should.";
    plan.stop(i, {"replaced", why + " Others are ready in its place.", replicas.numbers});
  }
}

}  // namespace sluice::policy
