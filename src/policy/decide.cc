#include "policy/decide.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "arbiters/arbiter.h"
#include "base/check.h"
#include "policy/explain.h"
#include "policy/groups.h"
#include "policy/loans.h"
#include "policy/reclaim.h"

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
      [](const Loan&) {},
  };
  for (const Action& action : actions) std::visit(carry_out_one, action.what);
  std::sort(snapshot.instances.begin(), snapshot.instances.end(),
            [](const Instance& a, const Instance& b) { return a.id < b.id; });
}

Settings settings_of(const Bundle& bundle, const FunctionSpec& spec,
                     const PlatformPolicy& platform) {
  const bool inference = spec.is_inference();
  Settings settings = inference ? bundle.settings : plan_of(spec, platform.plan, bundle).settings;
  if (inference && bundle.name == platform.bundle && !platform.settings.empty())
    if (auto changed = settings.with(platform.settings); changed.ok()) settings = *changed;
  if (!spec.policy_settings.empty())
    if (auto changed = settings.with(spec.policy_settings); changed.ok()) settings = *changed;
  return settings;
}

namespace {

// An empty device will run the bundle's arbiter, so it has that one's window. Returns nothing if
// that changes nothing.
std::optional<Snapshot> with_windows_of(std::string_view arbiter, const Snapshot& seen,
                                        const SnapshotIndex& index) {
  std::optional<Snapshot> changed;
  for (uint32_t d = 0; d < seen.devices.size(); ++d) {
    const Device& device = seen.devices[d];
    const Nanos window = window_of(arbiter_on(device.kind, arbiter));
    if (device.window == window || !device.arbiter.empty() || !index.on_device(d).empty()) continue;
    if (!changed) changed = seen;
    changed->devices[d].window = window;
  }
  return changed;
}

// What the group's functions may use: their devices, with all that is on them. Where one
// of theirs runs elsewhere (its file said otherwise before, or its node was on loan), that device
// looks cordoned, so that it is replaced and stopped. Returns nothing if that is all there is.
template <class MayUse>
std::optional<Snapshot> usable_by(const Group& group, const Snapshot& seen, const MayUse& node) {
  const auto usable = [&](const Device& d) { return group.kinds.has(d) && node(d.node); };
  if (std::ranges::all_of(seen.devices, usable)) return std::nullopt;
  Snapshot changed = seen;
  const auto ours = [&](const Instance& i) {
    return std::ranges::binary_search(group.mine, i.function);
  };
  std::set<DeviceId> kept;
  for (const Device& d : seen.devices)
    if (usable(d)) kept.insert(d.id);
  for (const Instance& i : seen.instances)
    if (ours(i))
      for (const Part& p : i.parts) kept.insert(p.device);
  std::erase_if(changed.devices, [&](const Device& d) { return !kept.contains(d.id); });
  for (Device& d : changed.devices) {
    if (usable(d)) continue;
    d.drained = true;
    if (!node(d.node)) d.set_apart = kGoneBack;
  }
  std::erase_if(changed.instances, [&](const Instance& i) {
    const auto is_kept = [&](const Part& p) { return kept.contains(p.device); };
    return !ours(i) && std::ranges::none_of(i.parts, is_kept);
  });
  return changed;
}

// Returns within how much the function's times are an estimate; nothing where they were measured on
// some type of device, or are unknown.
std::optional<double> estimated_within(const FunctionView& f,
                                       const std::vector<const Device*>& types,
                                       const Predictor& predictor) {
  std::optional<double> within;
  for (const Device* d : types) {
    const auto p = predictor.predict(model_on(f.spec.name, f.revision, *d), {1, kWhole, kWhole});
    if (p && p->source != PredictionSource::kLearned) return std::nullopt;
    if (p) within = std::max(within.value_or(0), p->uncertainty);
  }
  return within;
}

// A decision that rests on an estimate says so.
void name_estimates(std::vector<Action>& actions, const Snapshot& snapshot,
                    const Predictor& predictor) {
  if (actions.empty()) return;
  const std::vector<const Device*> types = one_of_each_type(snapshot.devices);
  const auto before = [](const FunctionView& v, const FunctionName& name) {
    return v.spec.name < name;
  };
  for (Action& action : actions) {
    const auto f = std::lower_bound(snapshot.functions.begin(), snapshot.functions.end(),
                                    action.function, before);
    if (f == snapshot.functions.end() || f->spec.name != action.function || !f->spec.is_inference())
      continue;
    if (const auto off = estimated_within(*f, types, predictor))
      action.reason.text += " Times are estimates, off by about " + percent(*off) +
                            " (sluice profile measures); the slower side counts.";
  }
}

// One decision over all groups. Each sees what those before have taken.
class Decision {
 public:
  Decision(const Snapshot& snapshot, const Predictor& predictor, Memories& memories, Random& random,
           const LoanRules& rules)
      : snapshot_(snapshot),
        predictor_(predictor),
        memories_(memories),
        random_(random),
        loans_(snapshot, rules,
               has_virtual_clusters(snapshot) ? memories[std::string(kLoanMemory)] : no_loans_,
               random),
        workers_(has_workers(snapshot)),
        index_(snapshot) {}

  void scale(const Group& group, bool last) {
    const Bundle& bundle = *group.bundle;
    Memory& memory = memory_of(std::string(bundle.name), bundle.memory_version);
    with_input(
        group, memory,
        [&](Input& input) {
          const bool reclaims = workers_ || !loans_.lent().empty();
          std::optional<Memory> memory_before;
          std::optional<Random> random_before;
          if (reclaims) memory_before = memory, random_before = random_;
          std::vector<Action> actions = bundle.scale(input);
          if (reclaims && lacks_devices(actions)) {
            const Input before = with(input, *memory_before, *random_before);
            if (workers_) add_wanted(bundle, before, actions, reclaimed_);
            if (!loans_.lent().empty() && !loans_.under_way(seen()))
              add_lacking(group, before, actions);
          }
          if (bundle.predicts) name_estimates(actions, input.snapshot, input.predictor);
          return actions;
        },
        last);
  }

  void plan(const Group& group, bool last) {
    const Plan& plan = *group.plan;
    const std::string whose = std::string(group.bundle->name) + " " + std::string(plan.name);
    Memory& memory = memory_of(whose + " jobs" + to_string(group.kinds), plan.memory_version);
    with_input(
        group, memory,
        [&](Input& input) {
          input.reclaimed = reclaimed_;
          return plan.run(input);
        },
        last);
  }

  // To be called between inference and plans.
  void reclaim() {
    if (!workers_) return;
    add_crowded(seen(), *index_, reclaimed_);
    std::ranges::sort(reclaimed_);
    reclaimed_.erase(std::unique(reclaimed_.begin(), reclaimed_.end()), reclaimed_.end());
  }

  // To be called there, too.
  void lend() {
    std::vector<Action> actions = loans_.decide(seen(), lacking_, lacking_for_);
    std::move(actions.begin(), actions.end(), std::back_inserter(all_));
  }

  std::vector<Action> take_actions() { return std::move(all_); }

 private:
  const Snapshot& seen() const { return as_decided_ ? *as_decided_ : snapshot_; }

  Memory& memory_of(const std::string& key, int version) {
    Memory& memory = memories_[key];
    if (memory.version != version) memory = {.version = version};
    return memory;
  }

  static Input with(const Input& input, Memory& memory, Random& random) {
    return {input.snapshot, input.index,     input.placement, input.arbiter, input.mine,
            input.settings, input.predictor, memory,          random};
  }

  // Adds the nodes on loan that the functions would use if all were back.
  void add_lacking(const Group& group, const Input& before, const std::vector<Action>& actions) {
    const auto back =
        usable_by(group, seen(), [&](const std::string& node) { return loans_.owns(node, true); });
    const Snapshot& all = back ? *back : seen();
    const SnapshotIndex index(all);
    const Input input{all,          index,           before.placement, before.arbiter,
                      before.mine,  before.settings, before.predictor, before.memory,
                      before.random};
    for (const DeviceId& id : taken_without_workers(*group.bundle, input)) {
      const auto d = index.device(id);
      if (!d || !loans_.lent().contains(all.devices[*d].node)) continue;
      if (lacking_.empty()) lacking_for_ = lacks_devices_for(actions);
      lacking_.insert(all.devices[*d].node);
    }
  }

  template <class Decide>
  void with_input(const Group& group, Memory& memory, const Decide& decide, bool last) {
    const Bundle& bundle = *group.bundle;
    const Placement* placement = find_placement(bundle.place);
    SLUICE_CHECK(placement != nullptr, bundle.place);
    const auto usable = usable_by(group, seen(), [&](const std::string& node) {
      return loans_.may_use(node, group.plan == nullptr);
    });
    std::optional<SnapshotIndex> index_of_usable;
    if (usable) index_of_usable.emplace(*usable);
    const SnapshotIndex& index = usable ? *index_of_usable : *index_;
    const Snapshot& theirs = usable ? *usable : seen();
    const auto with_windows = with_windows_of(bundle.arbiter, theirs, index);
    Input input{with_windows ? *with_windows : theirs,
                index,
                *placement,
                bundle.arbiter,
                group.mine,
                group.settings,
                predictor_,
                memory,
                random_};
    std::vector<Action> actions = decide(input);
    if (!actions.empty() && !last) {
      if (!as_decided_) as_decided_ = snapshot_;
      carry_out(*as_decided_, actions, "planned ", started_);  // no real id holds a space
      index_.emplace(*as_decided_);
    }
    std::move(actions.begin(), actions.end(), std::back_inserter(all_));
  }

  const Snapshot& snapshot_;
  const Predictor& predictor_;
  Memories& memories_;
  Random& random_;
  Memory no_loans_;  // where there are no virtual clusters
  Loans loans_;
  std::set<std::string> lacking_;  // nodes on loan that inference would use
  FunctionName lacking_for_;
  const bool workers_;                  // a training worker holds a device
  std::optional<Snapshot> as_decided_;  // with the changes of the groups before
  std::optional<SnapshotIndex> index_;  // of what is seen
  std::vector<DeviceId> reclaimed_;
  std::vector<Action> all_;
  int started_ = 0;
};

}  // namespace

std::vector<Action> decide(const Snapshot& snapshot, const PlatformPolicy& platform,
                           const Predictor& predictor, Memories& memories, Random& random,
                           std::span<const Bundle> table) {
  const std::vector<Group> inference = inference_groups(snapshot, platform, table);
  const std::vector<Group> jobs = job_groups(snapshot, platform, table);
  Decision decision(snapshot, predictor, memories, random, platform.loans);
  for (const Group& g : inference) decision.scale(g, jobs.empty() && &g == &inference.back());
  decision.reclaim();
  decision.lend();
  for (const Group& g : jobs) decision.plan(g, &g == &jobs.back());
  return decision.take_actions();
}

}  // namespace sluice::policy
