#include "control/requests.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/log.h"
#include "control/spec/function_text.h"
#include "control/spec/validate.h"

namespace sluice::control {
namespace {

// Its revisions replace each other while it runs, so all are of one kind, and asked in one way.
Result<void> check_kind(const FunctionSpec& spec, const FunctionSpec& newest) {
  const bool by_path = spec.model().program.http, newest_by_path = newest.model().program.http;
  if (spec.is_inference() && newest.is_inference() && by_path != newest_by_path)
    return Error{ErrorKind::kInvalid,
                 "server.protocol: " + std::string(by_path ? "http" : "oip") + ": " +
                     to_string(spec.name) +
                     " is asked by the other protocol, and a function keeps "
                     "its own. Delete it first, or apply this one under another name"};
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

// Returns settings of the file that its bundle, or a job's plan, ignores. The platform may have
// chosen another plan than that by which the file was checked.
std::vector<std::string> warnings(const FunctionSpec& spec, const ControlSettings& platform) {
  const policy::Bundle& bundle = policy::bundle_of(spec, platform.bundle);
  if (!spec.is_inference()) {
    const policy::Plan& plan = policy::plan_of(spec, platform.plan, bundle);
    const auto set = plan.settings.with(spec.policy_settings);
    if (set.ok()) return {};
    return {"policy.settings: have no effect under plan " + std::string(plan.name) + ": " +
            set.error().message};
  }
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
  if (inference.slo.rate > 0 && !bundle.predicts)
    out.push_back("slo.rate: has no effect under " + name +
                  ", which does not scale by rate; these bundles do: " +
                  bundles_with(&policy::Bundle::predicts));
  std::ranges::move(contradictions(inference), std::back_inserter(out));
  return out;
}

// Takes over what changes without a new revision: the split of the traffic, how many instances
// there may be, and of a job what its workers need not start again for.
void take_over_running(FunctionSpec& running, const FunctionSpec& wanted) {
  if (running.kind.index() != wanted.kind.index()) return;
  if (running.is_inference()) {
    running.inference().canary_traffic_percent = wanted.inference().canary_traffic_percent;
    running.inference().min_replicas = wanted.inference().min_replicas;
    running.inference().max_replicas = wanted.inference().max_replicas;
    return;
  }
  running.priority = wanted.priority;
  running.policy = wanted.policy;
  running.policy_settings = wanted.policy_settings;
  running.training().min_workers = wanted.training().min_workers;
  running.training().max_workers = wanted.training().max_workers;
  running.training().paused = wanted.training().paused;
  running.training().keep_checkpoints = wanted.training().keep_checkpoints;
  running.training().plan = wanted.training().plan;
}

bool splits_otherwise(const FunctionSpec& before, const FunctionSpec& now) {
  return now.is_inference() &&
         before.inference().canary_traffic_percent != now.inference().canary_traffic_percent;
}

// Returns the revision to go back to; `to` is a user's, 0 without one.
Result<RolledBack> earlier(const StoredFunction& f, int to) {
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

std::vector<DeviceType> types_for(const FunctionSpec& spec, const std::vector<Device>& devices) {
  std::vector<DeviceType> types;
  for (const Device* d : one_of_each_type(devices))
    if (spec.may_use(*d)) types.push_back(type_of(*d));
  return types;
}

}  // namespace

const StoredFunction* Requests::find(const FunctionName& name) const {
  const auto found = loop_.functions().find(name);
  return found == loop_.functions().end() ? nullptr : &found->second.stored;
}

std::vector<std::string> Requests::warnings_of(const FunctionSpec& spec) const {
  std::vector<std::string> out = warnings(spec, loop_.settings());
  if (spec.is_inference())
    for (const ModelVariant& v : spec.inference().variants)
      if (!v.fault.empty())
        out.push_back("variants: " + (v.device_type.empty() ? "model" : v.device_type) + ": " +
                      v.fault + "; no instance is placed on its devices");
  const Bytes stated =
      std::max(spec.memory_on(DeviceKind::kCuda), spec.slice ? spec.slice->memory : 0);
  const auto measured = [&](const DeviceType& type) {
    return loop_.profiles().find(spec.model_on(type), type) != nullptr;
  };
  if (spec.runs_on(DeviceKind::kCuda) && stated == 0 &&
      !std::ranges::all_of(types_for(spec, loop_.seen().devices), measured))
    out.push_back(
        "memory: is not stated, and was never measured: an instance may hold all of a "
        "GPU's memory (sluice profile measures it)");
  return out;
}

Result<Applied> Requests::check(const FunctionSpec& spec,
                                const std::vector<FunctionSpec>& all) const {
  for (const auto& [other, f] : loop_.functions()) SLUICE_TRY(check_path(spec.name, other));
  for (const FunctionSpec& other : all) SLUICE_TRY(check_path(spec.name, other.name));
  const std::optional<Nanos> fastest =
      loop_.profiles().fastest(spec, types_for(spec, loop_.seen().devices));
  SLUICE_TRY(check_feasible(spec, loop_.seen().devices, fastest));
  const StoredFunction* before = find(spec.name);
  if (before == nullptr) {
    const auto apart = loop_.apart().find(spec.name);
    const int last = apart == loop_.apart().end() ? 0 : apart->second.last;
    return Applied{spec.name, last + 1, "created", {}, warnings_of(spec)};
  }
  const FunctionSpec& newest = spec_of(*before, before->newest);
  SLUICE_TRY(check_kind(spec, newest));
  FunctionSpec resplit = newest;
  take_over_running(resplit, spec);
  const char* what = newest == spec                   ? "unchanged"
                     : resplit != spec                ? "changed"
                     : splits_otherwise(newest, spec) ? "traffic"
                                                      : "settings";
  const int next = before->revisions.back().number + 1;
  return Applied{spec.name, resplit == spec ? before->newest : next, what, difference(newest, spec),
                 warnings_of(spec)};
}

Result<std::vector<Applied>> Requests::apply(const std::vector<FunctionSpec>& specs, bool dry,
                                             UnixMillis wall) {
  std::vector<Applied> out;
  for (const FunctionSpec& spec : specs) {  // all are checked before one is changed
    auto checked = check(spec, specs);
    if (!checked.ok()) return within(to_string(spec.name), checked.error());
    out.push_back(std::move(*checked));
  }
  if (dry) return out;
  // One transaction: all of it is on disk or nothing.
  SLUICE_TRY(loop_.desired().transaction([&]() -> Result<void> {
    for (size_t k = 0; k < specs.size(); ++k) SLUICE_TRY(save(specs[k], out[k], wall));
    return {};
  }));
  for (size_t k = 0; k < specs.size(); ++k) {
    if (out[k].what == "traffic" || out[k].what == "settings") resplit(specs[k], wall);
    if (out[k].what == "created" || out[k].what == "changed")
      revise(specs[k], out[k], wall);
    else
      loop_.retry_given_up(specs[k].name);  // changed or not, it was applied again
  }
  loop_.decide_at_once();
  loop_.write_decisions();
  return out;
}

Result<void> Requests::save(const FunctionSpec& spec, const Applied& applied, UnixMillis wall) {
  DesiredState& desired = loop_.desired();
  const Revision revision{spec.name, applied.revision, spec, wall};
  if (applied.what == "traffic" || applied.what == "settings")
    return desired.replace_spec(revision);
  if (applied.what == "unchanged") return {};
  const StoredFunction* before = find(spec.name);
  const int serving = before == nullptr ? revision.number : before->serving;
  if (loop_.apart().contains(spec.name)) SLUICE_TRY(desired.remove_function(spec.name));
  SLUICE_TRY(desired.add_revision(revision, serving));
  if (before == nullptr) return {};
  return desired.forget_revisions(spec.name, oldest_kept(*before, revision.number), serving);
}

// Below it only the serving revision is kept, which bounds a function that changes for years, and
// the contents of its models.
int Requests::oldest_kept(const StoredFunction& f, int newest) const {
  std::vector<int> numbers{newest};
  for (auto r = f.revisions.rbegin(); r != f.revisions.rend(); ++r)
    if (r->number != newest && numbers.size() < loop_.settings().kept_revisions)
      numbers.push_back(r->number);
  return numbers.back();
}

// Adds a new revision, which starts beside the serving one.
void Requests::revise(const FunctionSpec& spec, const Applied& applied, UnixMillis wall) {
  if (applied.what == "created")  // the remains of a failed delete
    if (const auto forgot = loop_.journal().forget(spec.name); !forgot.ok())
      log::warn("{}", forgot.error().message);
  const StoredFunction* before = find(spec.name);
  StoredFunction f = before == nullptr ? StoredFunction{.name = spec.name} : *before;
  const int oldest = oldest_kept(f, applied.revision);
  std::erase_if(f.revisions, [&](const Revision& old) {
    return old.number < oldest && old.number != f.serving;
  });
  f.revisions.push_back({spec.name, applied.revision, spec, wall});
  f.newest = f.last = applied.revision;
  if (f.serving == 0) f.serving = applied.revision;
  loop_.adopt(std::move(f));
  loop_.record(
      {.at = wall,
       .function = spec.name,
       .action = "apply",
       .subject = revision_id(spec.name, applied.revision),
       .reason = {
           applied.what, "Revision " + std::to_string(applied.revision) + " was applied.", {}}});
}

// The split of the traffic and the number of instances are not part of a revision, so nothing
// starts again for them.
void Requests::resplit(const FunctionSpec& spec, UnixMillis wall) {
  StoredFunction f = *find(spec.name);
  const bool traffic = splits_otherwise(spec_of(f, f.newest), spec);
  const std::string newest = revision_id(spec.name, f.newest);
  for (Revision& revision : f.revisions)
    if (revision.number == f.newest) revision.spec = spec;
  Reason reason;
  if (traffic) {
    const int percent = spec.inference().canary_traffic_percent;
    reason = {"traffic",
              "Revision " + std::to_string(f.newest) + " gets " + std::to_string(percent) +
                  " % of the traffic.",
              {{"percent", static_cast<double>(percent)}}};
  } else if (!spec.is_inference() && spec.training().paused) {
    reason = {"paused", "Paused.", {}};
  } else {
    reason = {"settings", "Its settings changed.", {}};
  }
  loop_.adopt(std::move(f));
  loop_.record({.at = wall,
                .function = spec.name,
                .action = "apply",
                .subject = newest,
                .reason = std::move(reason)});
}

Result<RolledBack> Requests::rollback(const FunctionName& name, int to, UnixMillis wall) {
  SLUICE_TRY(check_known(name));
  StoredFunction f = *find(name);
  SLUICE_ASSIGN(back, earlier(f, to));
  to = back.revision;
  if (to == f.newest) return back;
  const int from = std::exchange(f.newest, to);
  // A rollout in progress ends: the serving revision goes on until the other is ready.
  f.served = back_to(f.served, to);
  SLUICE_TRY(loop_.desired().set_revisions(name, to, f.serving, f.served));
  loop_.adopt(std::move(f));
  loop_.record(
      {.at = wall,
       .function = name,
       .action = "rollback",
       .subject = revision_id(name, to),
       .reason = {"asked",
                  "Rolled back from revision " + std::to_string(from) + " to " +
                      std::to_string(to) + "." + (back.assumed.empty() ? "" : " " + back.assumed),
                  {}}});
  loop_.write_decisions();
  return back;
}

// Returns an error for a function that is not there, or is set apart.
Result<void> Requests::check_known(const FunctionName& name) const {
  if (loop_.functions().contains(name)) return {};
  const auto apart = loop_.apart().find(name);
  if (apart == loop_.apart().end())
    return Error{ErrorKind::kNotFound, "function '" + to_string(name) + "' not found"};
  return Error{ErrorKind::kConflict, to_string(name) + ": " + said_of(apart->second)};
}

Result<std::vector<std::string>> Requests::remove(const FunctionName& name, UnixMillis wall,
                                                  bool with_models) {
  if (!loop_.apart().contains(name)) SLUICE_TRY(check_known(name));
  SLUICE_TRY(loop_.desired().remove_function(name));
  loop_.record({.at = wall,
                .function = name,
                .action = "delete",
                .subject = to_string(name),
                .reason = {"asked", "Deleted.", {}}});
  std::vector<std::string> kept = loop_.remove(name, with_models);
  loop_.write_decisions();
  return kept;
}

Result<void> Requests::check_job(const FunctionName& name) const {
  SLUICE_TRY(check_known(name));
  const StoredFunction* f = find(name);
  if (spec_of(*f, f->newest).is_inference())
    return Error{ErrorKind::kNotFound,
                 "job '" + to_string(name) + "' not found; that is an inference function"};
  return {};
}

Result<void> Requests::resume_from(const FunctionName& name, int64_t step, UnixMillis wall) {
  SLUICE_TRY(check_job(name));
  SLUICE_TRY(loop_.go_back(name, step));
  SLUICE_TRY(set_paused(name, false, wall));
  loop_.record({.at = wall,
                .function = name,
                .action = "resume",
                .subject = revision_id(name, find(name)->newest),
                .reason = {"from-checkpoint",
                           "It goes on from its checkpoint of step " + std::to_string(step) +
                               ". Later ones are set aside.",
                           {{"step", static_cast<double>(step)}}}});
  loop_.write_decisions();
  return {};
}

Result<void> Requests::set_paused(const FunctionName& name, bool paused, UnixMillis wall) {
  SLUICE_TRY(check_job(name));
  const StoredFunction* f = find(name);
  FunctionSpec spec = spec_of(*f, f->newest);
  if (!paused) loop_.retry(name);
  if (spec.training().paused == paused) return {};
  spec.training().paused = paused;
  SLUICE_TRY(loop_.desired().replace_spec({name, f->newest, spec, wall}));
  resplit(spec, wall);
  loop_.write_decisions();
  return {};
}

Result<void> Requests::set_drained(const DeviceId& device, bool drained, UnixMillis wall) {
  if (control::find(loop_.seen().devices, device) == nullptr)
    return Error{ErrorKind::kNotFound, "device '" + device + "' not found"};
  SLUICE_TRY(loop_.set_drained(device, drained));
  loop_.record(
      {.at = wall,
       .action = drained ? "drain" : "undrain",
       .subject = device,
       .reason = {"asked",
                  "Device " + device +
                      (drained ? " is cordoned: it takes no more instances, and those that it has "
                                 "move elsewhere."
                               : " takes instances again."),
                  {}}});
  loop_.write_decisions();
  return {};
}

}  // namespace sluice::control
