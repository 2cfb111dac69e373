#include "model/snapshot_index.h"

namespace sluice {
namespace {

template <class Map, class Key>
std::optional<uint32_t> find(const Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? std::nullopt : std::optional(found->second);
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

size_t SnapshotIndex::NameHash::operator()(const FunctionName* f) const {
  const std::hash<std::string_view> hash;
  return hash(f->name) * 31 + hash(f->space);
}

SnapshotIndex::SnapshotIndex(const Snapshot& s) {
  functions_.reserve(s.functions.size());
  devices_.reserve(s.devices.size());
  instances_.reserve(s.instances.size());
  for (uint32_t i = 0; i < s.functions.size(); ++i)
    functions_.emplace(&s.functions[i].spec.name, i);
  for (uint32_t i = 0; i < s.devices.size(); ++i) devices_.emplace(s.devices[i].id, i);
  for (uint32_t i = 0; i < s.instances.size(); ++i) {
    instances_.emplace(s.instances[i].id, i);
    function_of_.push_back(function(s.instances[i].function));
    device_of_.push_back(device(s.instances[i].device()));
  }
  by_function_ = Lists(s.functions.size(), function_of_);
  by_device_ = Lists(s.devices.size(), device_of_);
}

std::optional<uint32_t> SnapshotIndex::function(const FunctionName& name) const {
  return find(functions_, &name);
}
std::optional<uint32_t> SnapshotIndex::device(std::string_view id) const {
  return find(devices_, id);
}
std::optional<uint32_t> SnapshotIndex::instance(std::string_view id) const {
  return find(instances_, id);
}

}  // namespace sluice
