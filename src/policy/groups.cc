#include "policy/groups.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace sluice::policy {
namespace {

const Bundle& bundle_of(const FunctionSpec& spec, const PlatformPolicy& platform,
                        std::span<const Bundle> table) {
  const std::string_view name = policy::bundle_of(spec, platform.bundle).name;
  const auto found = std::ranges::find(table, name, &Bundle::name);
  SLUICE_CHECK(found != table.end(), name);
  return *found;
}

DeviceKinds kinds_of(const FunctionSpec& spec) {
  return {spec.runs_on(DeviceKind::kCpu), spec.runs_on(DeviceKind::kCuda), spec.device_types};
}

void add(Group& group, const FunctionView& f, const PlatformPolicy& platform) {
  group.mine.push_back(f.spec.name);
  group.settings.push_back(settings_of(*group.bundle, f.spec, platform));
}

bool contains(const std::vector<std::string>& types, const std::string& type) {
  return std::ranges::find(types, type) != types.end();
}

}  // namespace

bool DeviceKinds::has(const Device& d) const {
  return (d.kind == DeviceKind::kCuda ? cuda : cpu) &&
         (types.empty() || contains(types, type_of(d).name));
}

bool DeviceKinds::overlaps(const DeviceKinds& other) const {
  const auto is_theirs = [&](const std::string& type) { return contains(other.types, type); };
  return ((cpu && other.cpu) || (cuda && other.cuda)) &&
         (types.empty() || other.types.empty() || std::ranges::any_of(types, is_theirs));
}

std::vector<Group> inference_groups(const Snapshot& snapshot, const PlatformPolicy& platform,
                                    std::span<const Bundle> table) {
  struct Due {
    const FunctionView* function;
    const Bundle* bundle;
    DeviceKinds kinds;
  };
  std::vector<Due> due;
  for (const FunctionView& f : snapshot.functions)
    if (f.due && f.spec.is_inference())
      due.push_back({&f, &bundle_of(f.spec, platform, table), kinds_of(f.spec)});
  std::set<std::pair<const Bundle*, DeviceKinds>> sides;
  for (const Due& d : due) sides.emplace(d.bundle, d.kinds);
  const bool tiers = std::ranges::any_of(sides, [&](const auto& a) {
    return std::ranges::any_of(
        sides, [&](const auto& b) { return a != b && a.second.overlaps(b.second); });
  });
  std::vector<Group> groups;
  for (const Due& d : due) {
    const bool violating = tiers && d.function->violating;
    const int priority = tiers ? d.function->spec.priority : 0;
    auto group = std::ranges::find_if(groups, [&](const Group& g) {
      return g.is_of(*d.bundle, d.kinds) && g.violating == violating && g.priority == priority;
    });
    if (group == groups.end())
      group = groups.insert(group, Group{d.bundle, d.kinds, violating, priority, {}, {}});
    add(*group, *d.function, platform);
  }
  std::ranges::sort(groups, {}, &Group::rank);
  return groups;
}

std::vector<Group> job_groups(const Snapshot& snapshot, const PlatformPolicy& platform,
                              std::span<const Bundle> table) {
  std::vector<Group> groups, due;
  for (const FunctionView& f : snapshot.functions) {
    if (f.spec.is_inference()) continue;
    const Bundle& bundle = bundle_of(f.spec, platform, table);
    const DeviceKinds kinds = kinds_of(f.spec);
    auto group =
        std::ranges::find_if(groups, [&](const Group& g) { return g.is_of(bundle, kinds); });
    if (group == groups.end())
      group = groups.insert(group, Group{&bundle, kinds, false, 0, {}, {}});
    add(*group, f, platform);
    group->due = group->due || f.due;
  }
  std::ranges::copy_if(groups, std::back_inserter(due), &Group::due);
  return due;
}

}  // namespace sluice::policy
