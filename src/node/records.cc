#include "node/records.h"

#include <algorithm>
#include <functional>

#include "base/log.h"

namespace sluice::node {
namespace {

constexpr size_t kKeptGone = 200;  // records of ended instances, for clients that ask why

}  // namespace

Records::Records(const std::string& path, NodeState state, Changes& changes)
    : registry_(path, state.boot_id), state_(std::move(state)), changes_(changes) {}

InstanceRecord* Records::find(const InstanceId& id) {
  const auto found = std::ranges::find_if(
      state_.instances, [&](const InstanceRecord& r) { return r.instance.id == id; });
  return found == state_.instances.end() ? nullptr : &*found;
}

const InstanceRecord* Records::find(const InstanceId& id) const {
  return const_cast<Records*>(this)->find(id);
}

Result<void> Records::add(InstanceRecord record) {
  state_.instances.push_back(std::move(record));
  Result<void> saved = save();
  if (!saved.ok()) state_.instances.pop_back();
  return saved;
}

Result<void> Records::remove(const InstanceId& id) {
  std::erase_if(state_.instances, [&](const InstanceRecord& r) { return r.instance.id == id; });
  return save();
}

void Records::forget_old() {
  auto gone = static_cast<size_t>(std::ranges::count_if(state_.instances, std::not_fn(alive)));
  std::erase_if(state_.instances,
                [&](const InstanceRecord& r) { return !alive(r) && gone-- > kKeptGone; });
}

Result<void> Records::set_drained(const DeviceId& device, bool drained, const std::string& fault) {
  for (LocalDevice& d : state_.devices)
    if (d.device.id == device) {
      d.device.drained = drained;
      d.device.fault = fault;
    }
  return save();
}

Result<void> Records::save() {
  changes_.notify();
  return registry_.save(state_);
}

void Records::save_or_log() {
  if (const Result<void> saved = save(); !saved.ok()) log::error("{}", saved.error().message);
}

}  // namespace sluice::node
