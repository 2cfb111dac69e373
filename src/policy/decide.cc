#include "policy/decide.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "arbiters/arbiter.h"
#include "base/check.h"

namespace sluice::policy {
namespace {

template <class... F>
struct Visitor : F... {
  using F::operator()...;
};
template <class... F>
Visitor(F...) -> Visitor<F...>;

Instance* find_instance(Snapshot& snapshot, const InstanceId& id) {
  for (Instance& i : snapshot.instances) {
    if (i.id == id) return &i;
  }
  return nullptr;
}

InstanceId numbered(std::string_view prefix, int number) {
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 6 ? 6 - digits.size() : 0, '0');
  return std::string(prefix) + digits;
}

void gave_back(Snapshot& snapshot, const FunctionName& function) {
  for (FunctionView& f : snapshot.functions) {
    if (f.spec.name == function) f.last_scale_down = snapshot.now;
  }
}

}  // namespace

void carry_out(Snapshot& snapshot, std::span<const Action> actions, std::string_view prefix,
               int& started) {
  const Visitor carry_out_one{
      [&](const StartInstance& s) {
        snapshot.instances.push_back({numbered(prefix, ++started), s.function, s.revision,
                                      InstanceState::kStarting, s.parts, s.batch, snapshot.now,
                                      s.arbiter});
      },
      [&](const StopInstance& s) {
        Instance* i = find_instance(snapshot, s.instance);
        if (i == nullptr) return;
        i->state = InstanceState::kDraining;
        gave_back(snapshot, i->function);
      },
      [&](const ResizeInstance& r) {
        Instance* i = find_instance(snapshot, r.instance);
        if (i == nullptr) return;
        if (area(r.first().slice) < area(i->slice())) gave_back(snapshot, i->function);
        i->parts = r.parts;
      },
      [](const Unmet&) {},
      [](const StartGang&) {},  // the loop refuses these
      [](const MoveInstance&) {},
      [](const Loan&) {},
      [](const SetTraining&) {},
  };
  for (const Action& action : actions) std::visit(carry_out_one, action.what);
  std::sort(snapshot.instances.begin(), snapshot.instances.end(),
            [](const Instance& a, const Instance& b) { return a.id < b.id; });
}

Settings settings_of(const Bundle& bundle, const FunctionSpec& spec,
                     const PlatformPolicy& platform) {
  Settings settings = bundle.settings;
  if (bundle.name == platform.bundle && !platform.settings.empty())
    if (auto changed = settings.with(platform.settings); changed.ok()) settings = *changed;
  if (!spec.policy_settings.empty())
    if (auto changed = settings.with(spec.policy_settings); changed.ok()) settings = *changed;
  return settings;
}

namespace {

// Functions that decide together, and their urgency.
struct Group {
  const Bundle* bundle = nullptr;
  bool violating = false;
  int priority = 0;
  std::vector<FunctionName> mine;  // by name
  std::vector<Settings> settings;

  auto rank() const { return std::tuple(!violating, -priority, mine.front()); }
};

const Bundle& bundle_of(const FunctionSpec& spec, const PlatformPolicy& platform,
                        std::span<const Bundle> table) {
  const std::string_view name = policy::bundle_of(spec, platform.bundle).name;
  const auto found = std::ranges::find(table, name, &Bundle::name);
  SLUICE_CHECK(found != table.end(), name);
  return *found;
}

// Returns the groups of due functions: one for each bundle; if several bundles are due, one for
// each of their tiers of equal urgency. The most urgent first.
std::vector<Group> groups(const Snapshot& snapshot, const PlatformPolicy& platform,
                          std::span<const Bundle> table) {
  std::vector<std::pair<const FunctionView*, const Bundle*>> due;
  for (const FunctionView& f : snapshot.functions)
    if (f.due) due.emplace_back(&f, &bundle_of(f.spec, platform, table));
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
    group->mine.push_back(f->spec.name);
    group->settings.push_back(settings_of(*bundle, f->spec, platform));
  }
  std::ranges::sort(groups, {}, &Group::rank);
  return groups;
}

// An empty device will run the bundle's arbiter, so it has that one's window. Returns nothing if
// that changes nothing.
std::optional<Snapshot> with_windows_of(std::string_view arbiter, const Snapshot& seen,
                                        const SnapshotIndex& index) {
  const Nanos window = window_of(arbiter);
  std::optional<Snapshot> changed;
  for (uint32_t d = 0; d < seen.devices.size(); ++d) {
    const Device& device = seen.devices[d];
    if (device.window == window || !device.arbiter.empty() || !index.on_device(d).empty()) continue;
    if (!changed) changed = seen;
    changed->devices[d].window = window;
  }
  return changed;
}

}  // namespace

std::vector<Action> decide(const Snapshot& snapshot, const PlatformPolicy& platform,
                           const Predictor& predictor, Memories& memories, Random& random,
                           std::span<const Bundle> table) {
  std::optional<Snapshot> as_decided;  // the changes of the groups before
  std::optional<SnapshotIndex> index(snapshot);
  std::vector<Action> all;
  int started = 0;
  const std::vector<Group> all_groups = groups(snapshot, platform, table);
  for (const Group& group : all_groups) {
    const Bundle& bundle = *group.bundle;
    Memory& memory = memories[std::string(bundle.name)];
    if (memory.version != bundle.memory_version) memory = {.version = bundle.memory_version};
    const Placement* placement = find_placement(bundle.place);
    SLUICE_CHECK(placement != nullptr, bundle.place);
    const Snapshot& before = as_decided ? *as_decided : snapshot;
    const auto with_windows = with_windows_of(bundle.arbiter, before, *index);
    const Snapshot& seen = with_windows ? *with_windows : before;
    Turn turn{seen,           *index,    *placement, bundle.arbiter, group.mine,
              group.settings, predictor, memory,     random};
    std::vector<Action> actions = bundle.scale(turn);
    if (!actions.empty() && &group != &all_groups.back()) {
      if (!as_decided) as_decided = snapshot;
      carry_out(*as_decided, actions, "planned ", started);  // no real id holds a space
      index.emplace(*as_decided);
    }
    std::move(actions.begin(), actions.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace sluice::policy
