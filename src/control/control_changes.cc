// Users' requests to the loop: apply, roll back, delete, cordon.
#include <algorithm>

#include "base/log.h"
#include "control/control.h"
#include "control/function_text.h"
#include "control/validate.h"

namespace sluice::control {
namespace {

// Function a.b of the default namespace and function b of the namespace a share one path for
// clients.
Result<void> check_path(const FunctionName& name, const FunctionName& other) {
  if (name == other || served_name(name) != served_name(other)) return {};
  return Error{ErrorKind::kInvalid, "metadata.name: clients would call it " + served_name(name) +
                                        ", which is " + to_string(other) + " already"};
}

// Returns "a, b": the bundles with the flag.
std::string bundles_with(bool policy::Bundle::*flag) {
  std::string names;
  for (const policy::Bundle& b : policy::bundles())
    if (b.*flag) names += (names.empty() ? "" : ", ") + std::string(b.name);
  return names;
}

// Returns settings of the file that its bundle ignores.
std::vector<std::string> warnings(const FunctionSpec& spec, const std::string& platform) {
  if (!spec.is_inference()) return {};
  const policy::Bundle& bundle = policy::bundle_of(spec, platform);
  const InferenceSpec& inference = spec.inference();
  const std::string name(bundle.name);
  std::vector<std::string> out;
  if (inference.min_replicas == 0 && !bundle.reaches_zero)
    out.push_back("minReplicas: 0 is taken as 1 under " + name +
                  ", which always keeps an instance; these bundles reach zero: " +
                  bundles_with(&policy::Bundle::reaches_zero));
  if (inference.scale_target > 0 && !bundle.by_concurrency)
    out.push_back("scaleTarget: " + std::to_string(inference.scale_target) +
                  " has no effect under " + name +
                  ", which scales by rate; these bundles scale by concurrency: " +
                  bundles_with(&policy::Bundle::by_concurrency));
  std::ranges::move(contradictions(inference), std::back_inserter(out));
  return out;
}

// Takes over what changes without a new revision: the split of the traffic, and of a job what its
// workers need not start again for.
void take_over_running(FunctionSpec& running, const FunctionSpec& wanted) {
  if (running.kind.index() != wanted.kind.index()) return;
  if (running.is_inference()) {
    running.inference().canary_traffic_percent = wanted.inference().canary_traffic_percent;
    return;
  }
  running.priority = wanted.priority;
  running.training().min_workers = wanted.training().min_workers;
  running.training().max_workers = wanted.training().max_workers;
  running.training().paused = wanted.training().paused;
}

}  // namespace

Result<std::vector<Applied>> Control::apply(std::vector<FunctionSpec> specs, bool dry,
                                            UnixMillis wall) {
  std::vector<Applied> out;
  for (FunctionSpec& spec : specs) {  // all are checked before one is changed
    const std::string name = to_string(spec.name);
    for (const auto& [other, f] : functions_)
      if (const auto free = check_path(spec.name, other); !free.ok())
        return within(name, free.error());
    for (const FunctionSpec& other : specs)
      if (const auto free = check_path(spec.name, other.name); !free.ok())
        return within(name, free.error());
    const std::optional<Nanos> fastest = profiles_.fastest(spec.model(), types_);
    if (const auto checked = check_feasible(spec, seen_.devices, fastest); !checked.ok())
      return within(name, checked.error());
    const StoredFunction* before = find(spec.name);
    if (before == nullptr) {
      out.push_back({spec.name, 1, "created", {}});
    } else {
      const FunctionSpec& newest = spec_of(*before, before->newest);
      FunctionSpec resplit = newest;
      take_over_running(resplit, spec);
      const char* what = newest == spec        ? "unchanged"
                         : resplit != spec     ? "changed"
                         : spec.is_inference() ? "traffic"
                                               : "settings";
      const int next = before->revisions.back().number + 1;
      out.push_back(
          {spec.name, resplit == spec ? before->newest : next, what, difference(newest, spec)});
    }
  }
  for (size_t k = 0; k < specs.size(); ++k) out[k].warnings = warnings(specs[k], settings_.bundle);
  if (dry) return out;
  // One transaction: all of it is on disk or nothing.
  SLUICE_TRY(desired_.transaction([&]() -> Result<void> {
    for (size_t k = 0; k < specs.size(); ++k) SLUICE_TRY(save(specs[k], out[k], wall));
    return {};
  }));
  for (size_t k = 0; k < specs.size(); ++k) {
    if (out[k].what == "traffic" || out[k].what == "settings") resplit(specs[k], wall);
    if (out[k].what == "created" || out[k].what == "changed") revise(specs[k], out[k], wall);
  }
  for (const FunctionSpec& spec : specs) teach(spec.name);
  decide_at_once();
  write_decisions();
  return out;
}

Result<void> Control::save(const FunctionSpec& spec, const Applied& applied, UnixMillis wall) {
  const Revision revision{spec.name, applied.revision, spec, wall};
  if (applied.what == "traffic" || applied.what == "settings")
    return desired_.replace_spec(revision);
  if (applied.what == "unchanged") return {};
  const StoredFunction* before = find(spec.name);
  const int serving = before == nullptr ? revision.number : before->serving;
  SLUICE_TRY(desired_.add_revision(revision, serving));
  if (before == nullptr) return {};
  return desired_.forget_revisions(spec.name, oldest_kept(*before, revision.number), serving);
}

// Below it only the serving revision is kept, which bounds a function that changes for years, and
// the contents of its models.
int Control::oldest_kept(const StoredFunction& f, int newest) const {
  std::vector<int> numbers{newest};
  for (auto r = f.revisions.rbegin(); r != f.revisions.rend(); ++r)
    if (r->number != newest && numbers.size() < settings_.kept_revisions)
      numbers.push_back(r->number);
  return numbers.back();
}

// Adds a new revision, which starts beside the serving one.
void Control::revise(const FunctionSpec& spec, const Applied& applied, UnixMillis wall) {
  unreadable_.erase(spec.name);
  if (applied.what == "created")  // the remains of a failed delete
    if (const auto forgot = journal_.forget(spec.name); !forgot.ok())
      log::warn("{}", forgot.error().message);
  FunctionState& f = functions_[spec.name];
  f.stored.name = spec.name;
  const int oldest = oldest_kept(f.stored, applied.revision);
  std::erase_if(f.stored.revisions, [&](const Revision& old) {
    return old.number < oldest && old.number != f.stored.serving;
  });
  f.stored.revisions.push_back({spec.name, applied.revision, spec, wall});
  if (f.stored.serving == 0) f.stored.serving = applied.revision;
  turn_to(f, applied.revision);
  decisions_.know(spec.name, std::nullopt);
  decisions_.record(
      {.at = wall,
       .function = spec.name,
       .action = "apply",
       .subject = revision_id(spec.name, applied.revision),
       .reason = {
           applied.what, "Revision " + std::to_string(applied.revision) + " was applied.", {}}});
}

// The split of the traffic is not part of a revision, so nothing starts again for it.
void Control::resplit(const FunctionSpec& spec, UnixMillis wall) {
  FunctionState& f = functions_.at(spec.name);
  for (Revision& revision : f.stored.revisions)
    if (revision.number == f.stored.newest) revision.spec = spec;
  f.bundle = &policies_.bundle_of(spec);
  if (!spec.is_inference()) {
    decisions_.record({.at = wall,
                       .function = spec.name,
                       .action = "apply",
                       .subject = revision_id(spec.name, f.stored.newest),
                       .reason = {spec.training().paused ? "paused" : "settings",
                                  spec.training().paused ? "Paused." : "Its settings changed.",
                                  {}}});
    return;
  }
  const int percent = spec.inference().canary_traffic_percent;
  decisions_.record({.at = wall,
                     .function = spec.name,
                     .action = "apply",
                     .subject = revision_id(spec.name, f.stored.newest),
                     .reason = {"traffic",
                                "Revision " + std::to_string(f.stored.newest) + " gets " +
                                    std::to_string(percent) + " % of the traffic.",
                                {{"percent", static_cast<double>(percent)}}}});
}

// Earlier obstacles of the newest revision no longer count.
void Control::turn_to(FunctionState& f, int newest) {
  f.stored.newest = newest;
  f.bundle = &policies_.bundle_of(spec_of(f.stored, newest));
  f.unavailable.clear();
  rollouts_.forget(f.stored.name);
  starts_.forget(f.stored.name, newest);
}

Result<int> Control::rollback(const FunctionName& name, int to, UnixMillis wall) {
  const auto found = functions_.find(name);
  if (found == functions_.end())
    return Error{ErrorKind::kNotFound, "function '" + to_string(name) + "' not found"};
  StoredFunction& f = found->second.stored;
  if (to == 0)
    for (const Revision& r : f.revisions)
      if (r.number < f.newest) to = r.number;
  const bool known =
      std::ranges::any_of(f.revisions, [&](const Revision& r) { return r.number == to; });
  if (!known) {
    std::string all;
    for (const Revision& r : f.revisions)
      all += (all.empty() ? "" : ", ") + std::to_string(r.number);
    return Error{ErrorKind::kInvalid, "to: " +
                                          (to == 0 ? "there is no earlier revision"
                                                   : std::to_string(to) + " is no revision") +
                                          "; there are " + all};
  }
  if (to == f.newest) return to;
  const int from = f.newest;
  // A rollout in progress ends: the serving revision goes on until the other is ready.
  SLUICE_TRY(desired_.set_revisions(name, to, f.serving));
  turn_to(found->second, to);
  decisions_.record({.at = wall,
                     .function = name,
                     .action = "rollback",
                     .subject = revision_id(name, to),
                     .reason = {"asked",
                                "Rolled back from revision " + std::to_string(from) + " to " +
                                    std::to_string(to) + ".",
                                {}}});
  decide_at_once();
  write_decisions();
  return to;
}

std::optional<std::set<std::string>> Control::contents() const {
  if (!all_read_) return std::nullopt;
  std::set<std::string> all;
  for (const auto& [name, f] : functions_)
    for (const Revision& revision : f.stored.revisions)
      if (const std::string& content = revision.spec.model().content; !content.empty())
        all.insert(content);
  return all;
}

Result<void> Control::remove(const FunctionName& name, UnixMillis wall) {
  if (find(name) == nullptr)
    return Error{ErrorKind::kNotFound, "function '" + to_string(name) + "' not found"};
  SLUICE_TRY(desired_.remove_function(name));
  decisions_.record({.at = wall,
                     .function = name,
                     .action = "delete",
                     .subject = to_string(name),
                     .reason = {"asked", "Deleted.", {}}});
  const Time now = clock_.now();
  drop(name, now);
  push_routes(now);
  write_decisions();
  return {};
}

Result<void> Control::set_paused(const FunctionName& name, bool paused, UnixMillis wall) {
  const StoredFunction* f = find(name);
  if (f == nullptr)
    return Error{ErrorKind::kNotFound, "function '" + to_string(name) + "' not found"};
  FunctionSpec spec = spec_of(*f, f->newest);
  if (spec.is_inference())
    return Error{ErrorKind::kNotFound,
                 "job '" + to_string(name) + "' not found; that is an inference function"};
  if (!paused && settings_.training != nullptr) settings_.training->retry(name);
  if (!paused) starts_.forget(name, f->newest);
  if (spec.training().paused == paused) return {};
  spec.training().paused = paused;
  SLUICE_TRY(desired_.replace_spec({name, f->newest, spec, wall}));
  resplit(spec, wall);
  decide_at_once();
  write_decisions();
  return {};
}

// Its instances stop at once: a function of the same name that is applied next must not adopt them.
void Control::drop(const FunctionName& name, Time now) {
  if (const auto forgot = journal_.forget(name); !forgot.ok())
    log::warn("{}", forgot.error().message);
  functions_.erase(name);
  if (settings_.training != nullptr) settings_.training->remove(name);
  predictor_.forget(name);
  accounting_.forget(name);
  rollouts_.forget(name);
  keeper_.forget(name);
  decisions_.forget(name);
  for (const ObservedInstance& o : seen_.instances)
    if (o.instance.function == name && ours(o) && alive(o))
      stop(o.instance.id, now, settings_.drain);
  decide_at_once();
}

// Takes over a function that others changed in the desired state.
void Control::adopt(StoredFunction stored, Time now) {
  if (stored.revisions.empty()) {
    if (find(stored.name) != nullptr) drop(stored.name, now);
    return;
  }
  unreadable_.erase(stored.name);
  decisions_.know(stored.name, std::nullopt);
  FunctionState& f = functions_[stored.name];
  const int before = f.stored.newest;
  f.stored = std::move(stored);
  f.bundle = &policies_.bundle_of(spec_of(f.stored, f.stored.newest));
  if (f.stored.newest != before) turn_to(f, f.stored.newest);
  decide_at_once();
}

Result<void> Control::set_drained(const DeviceId& device, bool drained, UnixMillis wall) {
  if (std::ranges::none_of(seen_.devices, [&](const Device& d) { return d.id == device; }))
    return Error{ErrorKind::kNotFound, "device '" + device + "' not found"};
  SLUICE_TRY(cluster_.set_drained(device, drained));
  for (Device& d : seen_.devices)
    if (d.id == device) d.drained = drained;
  decisions_.record(
      {.at = wall,
       .action = drained ? "drain" : "undrain",
       .subject = device,
       .reason = {"asked",
                  "Device " + device +
                      (drained ? " is cordoned: it takes no more instances, and those that it has "
                                 "move elsewhere."
                               : " takes instances again."),
                  {}}});
  decide_at_once();
  write_decisions();
  return {};
}

Result<void> Control::set_profile(const Profile& profile) {
  if (profiles_.superfluous(profile)) return {};
  SLUICE_TRY(desired_.save_profile(profile));
  profiles_.set(profile);
  teach_all();
  decide_at_once();
  return {};
}

}  // namespace sluice::control
