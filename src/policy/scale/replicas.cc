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
                 int missing, const Predictor& predictor) {
  const Slice& slice = replicas.slice;
  Reason reason =
      shortage(plan, predictor, slice_text(slice.sm, slice.quota.request), slice.memory);
  std::string lead = replicas.because + " " + std::to_string(missing) + " could not be started";
  for (const size_t i : sorted.unfit) {
    const Instance& instance = plan.at(i).instance;
    if (plan.on_drained(i))
      lead += "; " + instance.id + " stays on the cordoned device " + instance.device();
  }
  reason.text.insert(0, lead + ": ");
  reason.numbers.insert(reason.numbers.begin(), replicas.numbers.begin(), replicas.numbers.end());
  return reason;
}

// Returns the batch size of one instance: the best that is in time in that slice, one request at a
// time if none is; the file's largest if the model was not measured on such a device.
int instance_batch(const Demand& demand, const Slice& slice, const Predictor& predictor,
                   const Device& device) {
  const Capability capability(demand, {}, predictor, device);
  if (!capability.known()) return std::max(1, demand.inference().batching.max_size);
  return capability.best_batch(slice.sm, slice.quota.limit).value_or(1);
}

}  // namespace

Slice stated_slice(const Demand& demand, const Predictor& predictor,
                   std::span<const Device* const> types) {
  Slice slice = demand.spec->slice.value_or(Slice{kWhole, {kWhole, kWhole}, 0});
  if (slice.memory == 0) slice.memory = instance_memory(demand, predictor, types);
  return slice;
}

double target_concurrency(const InferenceSpec& spec, double utilisation) {
  if (spec.scale_target > 0) return spec.scale_target;
  const int most = spec.container_concurrency > 0 ? spec.container_concurrency
                                                  : std::max(1, spec.batching.max_size);
  return most * utilisation;
}

Bytes instance_memory(const Demand& demand, const Predictor& predictor,
                      std::span<const Device* const> types) {
  if (demand.spec->memory > 0) return demand.spec->memory;
  Bytes most = 0;
  for (const Device* type : types) {
    const ModelOnDevice model = model_on(demand.function(), demand.revision, *type);
    most = std::max(most, predictor.memory(model).value_or(0));
  }
  return most;
}

void hold_replicas(ClusterPlan& plan, const Demand& demand, const Replicas& replicas,
                   const Predictor& predictor) {
  const Sorted sorted = sort_out(plan, demand, replicas.slice);
  const int count = static_cast<int>(sorted.good.size());
  const Slice& slice = replicas.slice;
  for (int n = count; n < replicas.at_least; ++n) {
    Layouts& layouts = plan.layouts();
    const std::vector<Spot> spots =
        layouts.placement().place(layouts, {demand.view, slice.sm, slice.quota, slice.memory});
    if (spots.empty()) {
      const int missing = replicas.at_least - n;
      plan.unmet(demand, demand.rate() * missing / replicas.at_least,
                 why_unmet(plan, replicas, sorted, missing, predictor));
      break;
    }
    const Spot& spot = spots.front();
    const Device& device = spot.device->device();
    plan.start(
        demand, spot, slice,
        replicas.batch > 0 ? replicas.batch : instance_batch(demand, slice, predictor, device),
        {"start",
         replicas.because + " Started: " + slice_text(spot.opening.sm, slice.quota.request) +
             " on " + device.id + ".",
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
