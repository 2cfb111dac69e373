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

bool contains(const std::vector<std::string>& types, const std::string& type) {
  return std::ranges::find(types, type) != types.end();
}

// Where no variant is for all other types, the types are those of the sound variants.
DeviceKinds kinds_of(const FunctionSpec& spec) {
  DeviceKinds kinds{spec.runs_on(DeviceKind::kCpu),
                    spec.runs_on(DeviceKind::kCuda),
                    spec.device_types,
                    {},
                    spec.mps == "on"};
  if (!spec.is_inference() || spec.inference().variants.empty()) return kinds;
  std::vector<std::string> sound;
  bool others = false;
  for (const ModelVariant& v : spec.inference().variants) {
    if (!v.fault.empty())
      kinds.without.push_back(v.device_type);
    else if (v.device_type.empty())
      others = true;
    else
      sound.push_back(v.device_type);
  }
  if (others) return kinds;
  if (kinds.types.empty()) kinds.types = sound;
  std::erase_if(kinds.types, [&](const std::string& type) { return !contains(sound, type); });
  kinds.without.clear();
  if (kinds.types.empty()) kinds.cpu = kinds.cuda = false;
  return kinds;
}

void add(Group& group, const FunctionView& f, const PlatformPolicy& platform) {
  group.mine.push_back(f.spec.name);
  group.settings.push_back(settings_of(*group.bundle, f.spec, platform));
}

}  // namespace

bool DeviceKinds::has(const Device& d) const {
  const bool is_gpu = d.kind == DeviceKind::kCuda;
  if (!(is_gpu ? cuda : cpu) || (divisible && !d.mps)) return false;
  if (types.empty() && without.empty()) return true;
  const std::string type = type_of(d).name;
  return (types.empty() || contains(types, type)) && !contains(without, type);
}

std::string to_string(const DeviceKinds& kinds) {
  if (kinds == DeviceKinds{}) return "";
  std::string text = " on";
  if (kinds.cpu) text += " cpu";
  if (kinds.cuda) text += " cuda";
  for (const std::string& type : kinds.types) text += " " + type;
  for (const std::string& type : kinds.without) text += " -" + type;
  return kinds.divisible ? text + " divisible" : text;
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
      return g.is_of(*d.bundle, nullptr, d.kinds) && g.violating == violating &&
             g.priority == priority;
    });
    if (group == groups.end())
      group = groups.insert(group, Group{d.bundle, nullptr, d.kinds, violating, priority, {}, {}});
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
    const Plan& plan = plan_of(f.spec, platform.plan, bundle);
    const DeviceKinds kinds = kinds_of(f.spec);
    auto group =
        std::ranges::find_if(groups, [&](const Group& g) { return g.is_of(bundle, &plan, kinds); });
    if (group == groups.end())
      group = groups.insert(group, Group{&bundle, &plan, kinds, false, 0, {}, {}});
    add(*group, f, platform);
    group->due = group->due || f.due;
  }
  std::ranges::copy_if(groups, std::back_inserter(due), &Group::due);
  return due;
}

}  // namespace sluice::policy
