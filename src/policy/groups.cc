#include "policy/groups.h"

#include <algorithm>
#include <iterator>
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

void add(Group& group, const FunctionView& f, const PlatformPolicy& platform) {
  group.mine.push_back(f.spec.name);
  group.settings.push_back(settings_of(*group.bundle, f.spec, platform));
}

}  // namespace

std::vector<Group> inference_groups(const Snapshot& snapshot, const PlatformPolicy& platform,
                                    std::span<const Bundle> table) {
  std::vector<std::pair<const FunctionView*, const Bundle*>> due;
  for (const FunctionView& f : snapshot.functions)
    if (f.due && f.spec.is_inference()) due.emplace_back(&f, &bundle_of(f.spec, platform, table));
  const bool tiers = std::ranges::any_of(due, [&](auto& d) { return d.second != due[0].second; });
  std::vector<Group> groups;
  for (const auto& [f, bundle] : due) {
    const bool violating = tiers && f->violating;
    const int priority = tiers ? f->spec.priority : 0;
    auto group = std::ranges::find_if(groups, [&, bundle = bundle](const Group& g) {
      return g.bundle == bundle && g.violating == violating && g.priority == priority;
    });
    if (group == groups.end())
      group = groups.insert(group, Group{bundle, violating, priority, {}, {}});
    add(*group, *f, platform);
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
    auto group = std::ranges::find(groups, &bundle, &Group::bundle);
    if (group == groups.end()) group = groups.insert(group, Group{&bundle, false, 0, {}, {}});
    add(*group, f, platform);
    group->due = group->due || f.due;
  }
  std::ranges::copy_if(groups, std::back_inserter(due), &Group::due);
  return due;
}

}  // namespace sluice::policy
