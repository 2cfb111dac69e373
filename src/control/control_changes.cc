// Users' requests to the loop: apply, roll back, delete, cordon.
#include <algorithm>

#include "base/log.h"
#include "control/control.h"
#include "control/spec/function_text.h"
#include "control/spec/validate.h"

namespace sluice::control {
namespace {

// Function a.b of the default namespace and function b of the namespace a share one path for
// clients.
Result<void> check_path(const FunctionName& name, const FunctionName& other) {
  if (name == other || served_name(name) != served_name(other)) return {};
  return Error{ErrorKind::kInvalid, "metadata.name: clients would call it " + served_name(name) +
                                        ", which is " + to_string(other) + " already"};
}

// Its revisions replace each other while it runs, so all are of one kind.
Result<void> check_kind(const FunctionSpec& spec, const FunctionSpec& newest) {
  if (spec.is_inference() == newest.is_inference()) return {};
  const auto kind_of = [](const FunctionSpec& s) {
    return std::string(s.is_inference() ? "InferenceFunction" : "TrainingFunction");
  };
  return Error{ErrorKind::kInvalid, "kind: " + kind_of(spec) + ": " + to_string(spec.name) +
                                        " is there as " + (newest.is_inference() ? "an " : "a ") +
                                        kind_of(newest) +
                                        ", and a function keeps its kind. Delete it first, or "
                                        "apply this one under another name"};
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
      const auto apart = apart_.find(spec.name);
      const int last = apart == apart_.end() ? 0 : apart->second.last;
      out.push_back({spec.name, last + 1, "created", {}});
    } else {
      const FunctionSpec& newest = spec_of(*before, before->newest);
      if (const auto kind = check_kind(spec, newest); !kind.ok()) return within(name, kind.error());
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
  if (apart_.contains(spec.name)) SLUICE_TRY(desired_.remove_function(spec.name));
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
  apart_.erase(spec.name);
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
  f.stored.last = applied.revision;
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

// Returns the revision to go back to; `to` is a user's, 0 without one.
Result<RolledBack> Control::earlier(const StoredFunction& f, int to) {
  std::string all;
  for (const Revision& r : f.revisions) {
    if (r.number == to) return RolledBack{to, ""};
    all += (all.empty() ? "" : ", ") + std::to_string(r.number);
  }
  if (to != 0)
    return Error{ErrorKind::kNotFound,
                 "to: " + std::to_string(to) + " is no revision; there are " + all};
  const auto before = served_before(f);
  if (!before)
    return Error{ErrorKind::kInvalid, f.revisions.front().number == f.newest
                                          ? "to: there is no earlier revision; there are " + all
                                          : "to: no other revision has served; there are " + all +
                                                ", and --to names one"};
  if (!before->assumed) return RolledBack{before->revision, ""};
  return RolledBack{before->revision, "It is not known which revision served before " +
                                          std::to_string(f.newest) + ": " +
                                          std::to_string(before->revision) +
                                          " is assumed, the one before it."};
}

Result<RolledBack> Control::rollback(const FunctionName& name, int to, UnixMillis wall) {
  SLUICE_TRY(check_known(name));
  FunctionState& state = functions_.at(name);
  StoredFunction& f = state.stored;
  SLUICE_ASSIGN(back, earlier(f, to));
  to = back.revision;
  if (to == f.newest) return back;
  const int from = f.newest;
  // A rollout in progress ends: the serving revision goes on until the other is ready.
  ServingHistory served = back_to(f.served, to);
  SLUICE_TRY(desired_.set_revisions(name, to, f.serving, served));
  f.served = std::move(served);
  turn_to(state, to);
  decisions_.record(
      {.at = wall,
       .function = name,
       .action = "rollback",
       .subject = revision_id(name, to),
       .reason = {"asked",
                  "Rolled back from revision " + std::to_string(from) + " to " +
                      std::to_string(to) + "." + (back.assumed.empty() ? "" : " " + back.assumed),
                  {}}});
  decide_at_once();
  write_decisions();
  return back;
}

// Returns an error for a function that is not there, or is set apart.
Result<void> Control::check_known(const FunctionName& name) const {
  if (functions_.contains(name)) return {};
  const auto apart = apart_.find(name);
  if (apart == apart_.end())
    return Error{ErrorKind::kNotFound, "function '" + to_string(name) + "' not found"};
  return Error{ErrorKind::kConflict, to_string(name) + ": " + said_of(apart->second)};
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

Result<std::vector<std::string>> Control::remove(const FunctionName& name, UnixMillis wall,
                                                 bool with_models) {
  if (!apart_.contains(name)) SLUICE_TRY(check_known(name));
  SLUICE_TRY(desired_.remove_function(name));
  decisions_.record({.at = wall,
                     .function = name,
                     .action = "delete",
                     .subject = to_string(name),
                     .reason = {"asked", "Deleted.", {}}});
  const Time now = clock_.now();
  std::vector<std::string> kept = drop(name, now, with_models);
  push_routes(now);
  write_decisions();
  return kept;
}

Result<void> Control::set_paused(const FunctionName& name, bool paused, UnixMillis wall) {
  SLUICE_TRY(check_known(name));
  const StoredFunction* f = find(name);
  FunctionSpec spec = spec_of(*f, f->newest);
  if (spec.is_inference())
    return Error{ErrorKind::kNotFound,
                 "job '" + to_string(name) + "' not found; that is an inference function"};
  if (!paused && training_ != nullptr) training_->retry(name);
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
std::vector<std::string> Control::drop(const FunctionName& name, Time now, bool with_models) {
  if (const auto forgot = journal_.forget(name); !forgot.ok())
    log::warn("{}", forgot.error().message);
  if (const auto f = functions_.find(name); f != functions_.end()) {
    counts_.forget(name, f->second.traffic.last(), now);
    functions_.erase(f);
  }
  apart_.erase(name);
  std::vector<std::string> kept;
  if (training_ != nullptr) kept = training_->remove(name, with_models);
  predictor_.forget(name);
  accounting_.forget(name);
  rollouts_.forget(name);
  starts_.forget(name);
  policies_.forget(name);
  keeper_.forget(name);
  decisions_.forget(name);
  for (const ObservedInstance& o : seen_.instances)
    if (o.instance.function == name && ours(o) && alive(o))
      stop(o.instance.id, now, settings_.drain);
  decide_at_once();
  return kept;
}

// Returns whether the loop takes the stored function; else it is set apart.
bool Control::take_in(const StoredFunction& f) {
  std::string why = fault_of(f);
  for (auto other = functions_.begin(); why.empty() && other != functions_.end(); ++other)
    if (const auto free = check_path(f.name, other->first); !free.ok()) why = free.error().message;
  if (why.empty()) return true;
  log::error("store: {}: is set apart: {}.", to_string(f.name), why);
  apart_.insert_or_assign(f.name, SetApart{std::move(why), f.last});
  all_read_ = false;
  return false;
}

// Once for each fault, also over restarts of the loop.
void Control::say_apart(UnixMillis wall) {
  for (auto& [name, apart] : apart_) {
    if (std::exchange(apart.said, true)) continue;
    const auto last = journal_.decisions(name, 1);
    decisions_.know(name,
                    last.ok() && !last->empty() ? std::optional(last->front()) : std::nullopt);
    const std::string text = said_of(apart);
    if (const Decision* before = decisions_.last(name, wall); before && before->reason.text == text)
      continue;
    decisions_.record({.at = wall,
                       .function = name,
                       .action = "notice",
                       .subject = to_string(name),
                       .reason = {"set-apart", text, {}}});
  }
}

// Takes over a function that others changed in the desired state.
void Control::adopt(StoredFunction stored, Time now) {
  if (stored.revisions.empty()) {
    if (find(stored.name) != nullptr) drop(stored.name, now);
    return;
  }
  if (!take_in(stored)) {
    functions_.erase(stored.name);
    return decide_at_once();
  }
  apart_.erase(stored.name);
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
