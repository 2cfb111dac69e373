// What users ask of the loop: apply, roll back, delete, drain.
#include <algorithm>

#include "control/control.h"
#include "control/function_file.h"
#include "control/routes.h"
#include "control/validate.h"

namespace sluice::control {
namespace {

// Function a.b of the default namespace and function b of the namespace a are one path for clients.
Result<void> check_path(const FunctionName& name, const FunctionName& other) {
  if (name == other || served_name(name) != served_name(other)) return {};
  return Error{ErrorKind::kInvalid, "metadata.name: clients would call it " + served_name(name) +
                                        ", which is " + to_string(other) + " already"};
}

// "a, b": the bundles that have the flag.
std::string bundles_with(bool policy::Bundle::*flag) {
  std::string names;
  for (const policy::Bundle& b : policy::bundles())
    if (b.*flag) names += (names.empty() ? "" : ", ") + std::string(b.name);
  return names;
}

// What the file asks for and its bundle does not do.
std::vector<std::string> warnings(const FunctionSpec& spec, const std::string& platform) {
  const policy::Bundle& bundle = policy::bundle_of(spec, platform);
  const std::string name(bundle.name);
  std::vector<std::string> out;
  if (spec.min_replicas == 0 && !bundle.reaches_zero)
    out.push_back("minReplicas: 0 is taken as 1 under " + name +
                  ", which always keeps an instance; these bundles reach zero: " +
                  bundles_with(&policy::Bundle::reaches_zero));
  if (spec.scale_target > 0 && !bundle.by_concurrency)
    out.push_back("scaleTarget: " + std::to_string(spec.scale_target) + " has no effect under " +
                  name + ", which scales by rate; these bundles scale by concurrency: " +
                  bundles_with(&policy::Bundle::by_concurrency));
  return out;
}

}  // namespace

Result<std::vector<Applied>> Control::apply(std::vector<FunctionSpec> specs, bool dry,
                                            UnixMillis wall) {
  std::vector<Applied> out;
  for (FunctionSpec& spec : specs) {  // all are checked before one is changed
    const std::string name = to_string(spec.name);
    for (const auto& [other, runtime] : functions_)
      if (const auto free = check_path(spec.name, other); !free.ok())
        return within(name, free.error());
    for (const FunctionSpec& other : specs)
      if (const auto free = check_path(spec.name, other.name); !free.ok())
        return within(name, free.error());
    std::optional<Nanos> fastest;
    if (const auto p = profiles_.find(spec.model.path); p != profiles_.end())
      for (const auto& point : p->second.points)
        if (point.at.batch == 1)
          fastest = std::min(fastest.value_or(point.latency_p50), point.latency_p50);
    if (const auto checked = check_feasible(spec, seen_.devices, fastest); !checked.ok())
      return within(name, checked.error());
    const StoredFunction* before = find(spec.name);
    if (before == nullptr) {
      out.push_back({spec.name, 1, "created", {}});
    } else {
      const FunctionSpec& newest = spec_of(*before, before->newest);
      FunctionSpec resplit = newest;
      resplit.canary_traffic_percent = spec.canary_traffic_percent;
      const char* what = newest == spec ? "unchanged" : resplit == spec ? "traffic" : "changed";
      const int next = before->revisions.back().number + 1;
      out.push_back(
          {spec.name, resplit == spec ? before->newest : next, what, difference(newest, spec)});
    }
  }
  for (size_t k = 0; k < specs.size(); ++k) out[k].warnings = warnings(specs[k], settings_.bundle);
  if (dry) return out;
  // One transaction: what is on disk is all of it or nothing.
  SLUICE_TRY(store_.transaction([&]() -> Result<void> {
    for (size_t k = 0; k < specs.size(); ++k) SLUICE_TRY(save(specs[k], out[k], wall));
    return {};
  }));
  for (size_t k = 0; k < specs.size(); ++k) {
    if (out[k].what == "traffic") resplit(specs[k], wall);
    if (out[k].what == "created" || out[k].what == "changed") revise(specs[k], out[k], wall);
  }
  restore_predictor();
  decide_at_once();  // at the next step, however soon it comes
  return out;
}

Result<void> Control::save(const FunctionSpec& spec, const Applied& applied, UnixMillis wall) {
  const Revision revision{spec.name, applied.revision, spec, wall};
  if (applied.what == "traffic") return store_.replace_spec(revision);
  if (applied.what == "unchanged") return {};
  const StoredFunction* before = find(spec.name);
  const int serving = before == nullptr ? revision.number : before->serving;
  SLUICE_TRY(store_.add_revision(revision, serving));
  if (before == nullptr) return {};
  return store_.forget_revisions(spec.name, oldest_kept(*before, revision.number), serving);
}

// Below it only the serving revision is kept, so that a function that changes for years, and the
// contents of its models, have a bound.
int Control::oldest_kept(const StoredFunction& f, int newest) const {
  std::vector<int> numbers{newest};
  for (auto r = f.revisions.rbegin(); r != f.revisions.rend(); ++r)
    if (r->number != newest && numbers.size() < settings_.kept_revisions)
      numbers.push_back(r->number);
  return numbers.back();
}

// A new revision, which starts beside the one that serves.
void Control::revise(const FunctionSpec& spec, const Applied& applied, UnixMillis wall) {
  unreadable_.erase(spec.name);
  Runtime& r = functions_[spec.name];
  r.stored.name = spec.name;
  const int oldest = oldest_kept(r.stored, applied.revision);
  std::erase_if(r.stored.revisions, [&](const Revision& old) {
    return old.number < oldest && old.number != r.stored.serving;
  });
  r.stored.revisions.push_back({spec.name, applied.revision, spec, wall});
  if (r.stored.serving == 0) r.stored.serving = applied.revision;
  turn_to(r, applied.revision);
  record({.at = wall,
          .function = spec.name,
          .action = "apply",
          .subject = revision_id(spec.name, applied.revision),
          .reason = {
              applied.what, "Revision " + std::to_string(applied.revision) + " was applied.", {}}});
}

// How the traffic is split is no part of what a revision runs: nothing starts again for it.
void Control::resplit(const FunctionSpec& spec, UnixMillis wall) {
  Runtime& r = functions_.at(spec.name);
  for (Revision& revision : r.stored.revisions)
    if (revision.number == r.stored.newest) revision.spec = spec;
  const double percent = spec.canary_traffic_percent;
  record({.at = wall,
          .function = spec.name,
          .action = "apply",
          .subject = revision_id(spec.name, r.stored.newest),
          .reason = {"traffic",
                     "Revision " + std::to_string(r.stored.newest) + " gets " +
                         std::to_string(spec.canary_traffic_percent) + " % of the traffic.",
                     {{"percent", percent}}}});
}

// Whatever stood in the way of the newest revision before is another matter now.
void Control::turn_to(Runtime& r, int newest) {
  r.stored.newest = newest;
  r.unavailable.clear();
  r.rollout_failed.clear();
  r.newest_ready_since = Time{};
  troubles_.erase({r.stored.name, newest});
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
  // A rollout under way ends: what serves goes on until the one rolled back to is ready.
  SLUICE_TRY(store_.set_revisions(name, to, f.serving));
  turn_to(found->second, to);
  record({.at = wall,
          .function = name,
          .action = "rollback",
          .subject = revision_id(name, to),
          .reason = {"asked",
                     "Rolled back from revision " + std::to_string(from) + " to " +
                         std::to_string(to) + ".",
                     {}}});
  decide_at_once();
  return to;
}

std::optional<std::set<std::string>> Control::contents() const {
  if (!all_read_) return std::nullopt;
  std::set<std::string> all;
  for (const auto& [name, r] : functions_)
    for (const Revision& revision : r.stored.revisions)
      if (!revision.spec.model.content.empty()) all.insert(revision.spec.model.content);
  return all;
}

Result<void> Control::remove(const FunctionName& name, UnixMillis wall) {
  if (find(name) == nullptr)
    return Error{ErrorKind::kNotFound, "function '" + to_string(name) + "' not found"};
  record({.at = wall,
          .function = name,
          .action = "delete",
          .subject = to_string(name),
          .reason = {"asked", "Deleted.", {}}});
  SLUICE_TRY(store_.remove_function(name));
  functions_.erase(name);
  accounting_.forget(name);
  decide_at_once();
  // At once: a function of the same name that is applied next must not take them for its own.
  for (const ObservedInstance& o : std::vector(seen_.instances))
    if (o.instance.function == name && ours(o) && alive(o))
      stop(o.instance.id, clock_.now(), settings_.drain);
  return {};
}

Result<void> Control::set_drained(const DeviceId& device, bool drained, UnixMillis wall) {
  if (std::ranges::none_of(seen_.devices, [&](const Device& d) { return d.id == device; }))
    return Error{ErrorKind::kNotFound, "device '" + device + "' not found"};
  SLUICE_TRY(cluster_.set_drained(device, drained));
  for (Device& d : seen_.devices)
    if (d.id == device) d.drained = drained;
  record(
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
  return {};
}

Result<void> Control::set_profile(const std::string& model_path, const predict::Profile& profile) {
  SLUICE_TRY(store_.save_profile(model_path, profile));
  profiles_[model_path] = profile;
  restore_predictor();
  decide_at_once();
  return {};
}

}  // namespace sluice::control
