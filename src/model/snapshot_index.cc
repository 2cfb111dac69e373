#include "model/snapshot_index.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace sluice {
namespace {

// Returns the position of a key in a vector that is sorted by it.
template <class T, class Key, class KeyOf>
std::optional<uint32_t> position(const std::vector<T>& sorted, const Key& key, KeyOf key_of) {
  const auto at = std::ranges::lower_bound(sorted, key, {}, key_of);
  if (at == sorted.end() || key_of(*at) != key) return std::nullopt;
  return static_cast<uint32_t>(at - sorted.begin());
}

uint64_t hash_of(std::string_view id) {
  return std::hash<std::string_view>()(id);
}

}  // namespace

// Counts each list, then fills them: two passes instead of a vector for each.
SnapshotIndex::Lists::Lists(size_t lists, const std::vector<std::optional<uint32_t>>& list_of)
    : begin_(lists + 1) {
  for (const auto& list : list_of)
    if (list) ++begin_[*list + 1];
  for (size_t i = 0; i < lists; ++i) begin_[i + 1] += begin_[i];
  numbers_.resize(begin_[lists]);
  std::vector<uint32_t> at(begin_.begin(), begin_.end() - 1);
  for (uint32_t i = 0; i < list_of.size(); ++i)
    if (list_of[i]) numbers_[at[*list_of[i]]++] = i;
}

SnapshotIndex::DeviceTable::DeviceTable(const std::vector<Device>& devices)
    : devices_(devices), slots_(std::bit_ceil(2 * devices.size() + 1)) {
  for (uint32_t d = 0; d < devices.size(); ++d) {
    const uint64_t hash = hash_of(devices[d].id);
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].device != kEmpty) at = after(at);
    slots_[at] = {d, static_cast<uint32_t>(hash >> 32)};
  }
}

std::optional<uint32_t> SnapshotIndex::DeviceTable::find(std::string_view id) const {
  const uint64_t hash = hash_of(id);
  for (size_t at = hash & (slots_.size() - 1); slots_[at].device != kEmpty; at = after(at))
    if (slots_[at].hash == hash >> 32 && devices_[slots_[at].device].id == id)
      return slots_[at].device;
  return std::nullopt;
}

SnapshotIndex::SnapshotIndex(const Snapshot& s) : snapshot_(s), devices_(s.devices) {
  function_of_.reserve(s.instances.size());
  device_of_.reserve(s.instances.size());
  const Instance* before = nullptr;  // mostly of the same function
  for (const Instance& i : s.instances) {
    const bool same = before != nullptr && before->function == i.function;
    function_of_.push_back(same ? function_of_.back() : function(i.function));
    device_of_.push_back(device(i.device()));
    before = &i;
  }
  by_function_ = Lists(s.functions.size(), function_of_);
  by_device_ = Lists(s.devices.size(), device_of_);
}

std::optional<uint32_t> SnapshotIndex::function(const FunctionName& name) const {
  const auto name_of = [](const FunctionView& f) -> const FunctionName& { return f.spec.name; };
  return position(snapshot_.functions, name, name_of);
}
std::optional<uint32_t> SnapshotIndex::device(std::string_view id) const {
  return devices_.find(id);
}
std::optional<uint32_t> SnapshotIndex::instance(std::string_view id) const {
  return position(snapshot_.instances, id,
                  [](const Instance& i) -> std::string_view { return i.id; });
}

}  // namespace sluice
