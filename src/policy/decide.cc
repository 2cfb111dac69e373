#include "policy/decide.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

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
                                      InstanceState::kStarting, s.device, s.slice, s.position,
                                      s.batch, snapshot.now});
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
        if (area(r.slice) < area(i->slice)) gave_back(snapshot, i->function);
        i->slice = r.slice;
        i->position = r.position;
      },
      [](const Unmet&) {},
  };
  for (const Action& action : actions) std::visit(carry_out_one, action.what);
  std::sort(snapshot.instances.begin(), snapshot.instances.end(),
            [](const Instance& a, const Instance& b) { return a.id < b.id; });
}

Settings settings_of(const Bundle& bundle, const FunctionSpec& spec,
                     const PlatformPolicy& platform) {
  Settings settings = bundle.settings;
  if (bundle.name == platform.bundle)
    if (auto changed = settings.with(platform.settings); changed.ok()) settings = *changed;
  if (auto changed = settings.with(spec.policy_settings); changed.ok()) settings = *changed;
  return settings;
}

std::vector<Action> decide(const Snapshot& snapshot, const PlatformPolicy& platform,
                           const Predictor& predictor, Memories& memories, Random& random,
                           std::span<const Bundle> table) {
  Snapshot as_decided = snapshot;
  std::vector<Action> all;
  int started = 0;
  for (const Bundle& bundle : table) {
    std::vector<FunctionName> mine;
    std::vector<Settings> settings;
    for (const FunctionView& f : snapshot.functions) {
      if (!f.due || bundle_of(f.spec, platform.bundle).name != bundle.name) continue;
      mine.push_back(f.spec.name);
      settings.push_back(settings_of(bundle, f.spec, platform));
    }
    if (mine.empty()) continue;
    Memory& memory = memories[std::string(bundle.name)];
    if (memory.version != bundle.memory_version) memory = {.version = bundle.memory_version};
    Turn turn{as_decided, mine, settings, predictor, memory, random};
    std::vector<Action> actions = bundle.scale(turn);
    carry_out(as_decided, actions, "planned ", started);  // no real id holds a space
    std::move(actions.begin(), actions.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace sluice::policy
