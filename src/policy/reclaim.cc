#include "policy/reclaim.h"

#include <algorithm>
#include <variant>

namespace sluice::policy {
namespace {

bool is_worker(const Snapshot& snapshot, const SnapshotIndex& index, uint32_t instance) {
  const auto f = index.function_of(instance);
  return f && !snapshot.functions[*f].spec.is_inference();
}

// Returns the devices of which the actions take more, one entry for each action.
std::vector<DeviceId> taken_by(const std::vector<Action>& actions) {
  std::vector<DeviceId> devices;
  for (const Action& action : actions) {
    if (const auto* start = std::get_if<StartInstance>(&action.what))
      devices.push_back(start->first().device);
    if (const auto* resize = std::get_if<ResizeInstance>(&action.what))
      devices.push_back(resize->first().device);
  }
  return devices;
}

bool is_shortage(const Action& action) {
  return std::holds_alternative<Unmet>(action.what) && action.reason.rule == "cluster-full";
}

// The functions without enough devices, and what they lack.
struct Shortage {
  long functions = 0;
  double gap = 0;
};
Shortage shortage_in(const std::vector<Action>& actions) {
  Shortage all;
  for (const Action& a : actions)
    if (is_shortage(a)) ++all.functions, all.gap += std::get<Unmet>(a.what).gap;
  return all;
}

// A decision of the bundle, with every training worker gone.
std::vector<Action> decide_without_workers(const Bundle& bundle, const Input& before) {
  Snapshot without = before.snapshot;
  without.instances.clear();
  for (uint32_t i = 0; i < before.snapshot.instances.size(); ++i)
    if (!is_worker(before.snapshot, before.index, i))
      without.instances.push_back(before.snapshot.instances[i]);
  const SnapshotIndex index(without);
  Memory memory = before.memory;
  Random random = before.random;
  Input input{without,          index,       before.placement,
              before.arbiter,   before.mine, before.settings,
              before.predictor, memory,      random};
  return bundle.scale(input);
}

bool holds_worker(const Input& input, const DeviceId& id) {
  const auto device = input.index.device(id);
  return device && std::ranges::any_of(input.index.on_device(*device), [&](uint32_t i) {
           return is_worker(input.snapshot, input.index, i);
         });
}

}  // namespace

bool has_workers(const Snapshot& snapshot) {
  if (std::ranges::all_of(snapshot.functions,
                          [](const FunctionView& f) { return f.spec.is_inference(); }))
    return false;
  const SnapshotIndex index(snapshot);
  for (uint32_t i = 0; i < snapshot.instances.size(); ++i)
    if (is_worker(snapshot, index, i)) return true;
  return false;
}

bool lacks_devices(const std::vector<Action>& actions) {
  return std::ranges::any_of(actions, is_shortage);
}

FunctionName lacks_devices_for(const std::vector<Action>& actions) {
  return std::ranges::find_if(actions, is_shortage)->function;
}

std::vector<DeviceId> taken_without_workers(const Bundle& bundle, const Input& before) {
  return taken_by(decide_without_workers(bundle, before));
}

void add_wanted(const Bundle& bundle, const Input& before, const std::vector<Action>& actions,
                std::vector<DeviceId>& devices) {
  const std::vector<Action> possible = decide_without_workers(bundle, before);
  const Shortage now = shortage_in(actions), then = shortage_in(possible);
  if (then.functions >= now.functions && then.gap >= now.gap - 1e-9) return;
  std::vector<DeviceId> taken = taken_by(actions);
  const std::vector<DeviceId> wanted = taken_by(possible);
  const size_t more = wanted.size() > taken.size() ? wanted.size() - taken.size() : 1;
  size_t added = 0;
  for (const DeviceId& id : wanted) {
    if (const auto same = std::ranges::find(taken, id); same != taken.end()) {
      taken.erase(same);  // it has that already, beside the workers
    } else if (added < more && holds_worker(before, id)) {
      devices.push_back(id);
      ++added;
    }
  }
}

void add_crowded(const Snapshot& snapshot, const SnapshotIndex& index,
                 std::vector<DeviceId>& devices) {
  for (uint32_t d = 0; d < snapshot.devices.size(); ++d) {
    bool violating = false;
    int64_t free = int64_t{kWhole.permille} * kWhole.permille, held = 0;
    for (const uint32_t k : index.on_device(d)) {
      const Instance& i = snapshot.instances[k];
      if (i.state == InstanceState::kGone) continue;
      free -= area(i.slice());
      if (is_worker(snapshot, index, k))
        held += area(i.slice());
      else if (const auto f = index.function_of(k))
        violating = violating || snapshot.functions[*f].violating;
    }
    if (violating && held > 0 && free < held) devices.push_back(snapshot.devices[d].id);
  }
}

}  // namespace sluice::policy
