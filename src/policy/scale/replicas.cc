#include "policy/scale/replicas.h"

#include <algorithm>
#include <tuple>

#include "policy/explain.h"
#include "policy/scale/capability.h"
#include "policy/scale/shortage.h"

namespace sluice::policy {
namespace {

struct Sorted {
  std::vector<size_t> good;   // newest last
  std::vector<size_t> unfit;  // another slice, or a cordoned device
  int ready = 0;              // of the good ones
};

Sorted sort_out(ClusterPlan& plan, const Demand& demand, const Slice& slice) {
  Sorted sorted;
  for (const size_t i : plan.serving(demand)) {
    const Instance& instance = plan.at(i).instance;
    const bool fits = instance.slice().quota == slice.quota &&
                      instance.slice().sm == plan.layout(plan.at(i)).width(slice.sm);
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
                 int missing) {
  const Slice& slice = replicas.slice;
  std::string lead = replicas.because + " " + std::to_string(missing) + " could not be started";
  for (const size_t i : sorted.unfit) {
    const Instance& instance = plan.at(i).instance;
    if (plan.on_drained(i))
      lead += "; " + instance.id + " stays on the cordoned device " + instance.device();
  }
  return shortage(plan, lead + ": ", slice_text(slice.sm, slice.quota.request), slice.memory,
                  replicas.numbers);
}

// Returns the batch size of one instance: the best that is in time in that slice, one request at a
// time if none is; the file's largest if the model was not measured on such a device.
int instance_batch(const ClusterPlan& plan, const Demand& demand, const Slice& slice,
                   const Device& device) {
  const Capability capability(demand, {}, plan.predictor(), device);
  if (!capability.known()) return most_at_once(*demand.spec, type_of(device));
  return capability.best_batch(slice.sm, slice.quota.limit).value_or(1);
}

}  // namespace

Slice stated_slice(const ClusterPlan& plan, const Demand& demand) {
  Slice slice = demand.spec->slice.value_or(Slice{kWhole, {kWhole, kWhole}, 0});
  if (slice.memory == 0) slice.memory = instance_memory(plan, demand);
  return slice;
}

double target_concurrency(const InferenceSpec& spec, double utilisation) {
  if (spec.scale_target > 0) return spec.scale_target;
  const int most = spec.container_concurrency > 0 ? spec.container_concurrency
                                                  : std::max(1, spec.batching.max_size);
  return most * utilisation;
}

Bytes instance_memory(const ClusterPlan& plan, const Demand& demand) {
  Bytes most = 0;
  for (const Device* type : plan.types()) {
    const ModelOnDevice model = model_on(demand.function(), demand.revision, *type);
    const Bytes stated = demand.spec->memory_on(type->kind);
    most = std::max(most, stated > 0 ? stated : plan.predictor().memory(model).value_or(0));
  }
  return most;
}

void hold_replicas(ClusterPlan& plan, const Demand& demand, const Replicas& replicas) {
  const Sorted sorted = sort_out(plan, demand, replicas.slice);
  const int count = static_cast<int>(sorted.good.size());
  const Slice& slice = replicas.slice;
  for (int n = count; n < replicas.at_least; ++n) {
    const std::vector<Spot> spots =
        plan.layouts().place({demand.view, slice.sm, slice.quota, slice.memory});
    if (spots.empty()) {
      const int missing = replicas.at_least - n;
      plan.unmet(demand, demand.rate() * missing / replicas.at_least,
                 why_unmet(plan, replicas, sorted, missing));
      break;
    }
    const Spot& spot = spots.front();
    const int batch = replicas.batch > 0
                          ? replicas.batch
                          : instance_batch(plan, demand, slice, spot.device->device());
    plan.start(
        demand, spot, slice, batch,
        {"start", replicas.because + " Started: " + spot_text(spot, slice.quota.request) + ".",
         replicas.numbers});
  }
  for (int n = count; n > replicas.at_most; --n) {
    plan.stop(sorted.good[n - 1], {"stop", replicas.because, replicas.numbers});
  }
  if (sorted.ready < replicas.at_least) return;
  for (const size_t i : sorted.unfit) {
    const std::string device = plan.at(i).instance.device();
    const std::string why = plan.on_drained(i) ? "Device " + device + " is cordoned."
                                               : "It holds another slice than it should.";
    if (sorted.ready > 0)
      plan.stop(i, {"replaced", why + " Others are ready in its place.", replicas.numbers});
    else
      plan.stop(i, {"stop", why + " None is needed. " + replicas.because, replicas.numbers});
  }
}

}  // namespace sluice::policy
