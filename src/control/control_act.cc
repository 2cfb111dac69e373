// Carries out the policies' decisions: orders to the cluster, and records of them.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/random.h"
#include "control/control.h"
#include "model/server_kind.h"
#include "wire/json/json.h"

namespace sluice::control {
namespace {

std::string base36(uint64_t n, int digits) {
  std::string out;
  for (int i = 0; i < digits; ++i, n /= 36) out += "0123456789abcdefghijklmnopqrstuvwxyz"[n % 36];
  return out;
}

// Returns how many threads can compute at once in a part of a CPU device.
int cores_of(const Part& part, const std::vector<Device>& devices) {
  const Device* d = find(devices, part.device);
  if (d == nullptr) return 1;
  return std::max(1,
                  static_cast<int>(std::lround(d->millicores * part.slice.sm.fraction() / 1000)));
}

}  // namespace

void Control::carry_out(const std::vector<Action>& actions, Time now, UnixMillis wall) {
  std::set<FunctionName> wants;  // functions that may not get what they want
  for (const Action& action : actions) {
    if (!std::holds_alternative<StopInstance>(action.what)) wants.insert(action.function);
    if (!held_back(action, now, wall)) carry_out(action, now, wall);
  }
  last_tick_.actions = static_cast<int>(actions.size());
  if (!policies_.ran()) return;
  for (const FunctionView& f : snapshot_.functions) {
    if (!f.due) continue;
    ++last_tick_.decided;
    if (!wants.contains(f.spec.name)) try_again(f, now);
  }
}

// A function that wants nothing now may get from the next request on what it could not get before.
// Otherwise a function at zero would be refused for ever.
void Control::try_again(const FunctionView& view, Time now) {
  FunctionState& f = functions_.at(view.spec.name);
  if (!f.unavailable.empty() && starts_.backoff(view.spec.name, view.revision, now) == nullptr)
    f.unavailable.clear();
}

// A start waits after failed ones of its revision, or does not come. That is recorded once for each
// failure.
bool Control::held_back(const Action& action, Time now, UnixMillis wall) {
  const auto* start = std::get_if<StartInstance>(&action.what);
  if (start == nullptr) return is_given_up_and_unmet(action);
  Starts::Trouble* t = starts_.backoff(action.function, start->revision, now);
  if (t == nullptr) return false;
  if (FunctionState& f = functions_.at(action.function); t->given_up && !f.present.alive)
    f.unavailable = said_of_given_up(start->revision, *t);
  if (std::exchange(t->reported, true)) return true;
  if (t->given_up) {
    decisions_.record({.at = wall,
                       .function = action.function,
                       .action = "unmet",
                       .subject = revision_id(action.function, start->revision),
                       .reason = {"start-given-up",
                                  said_of_given_up(start->revision, *t),
                                  {{"failures", static_cast<double>(t->failures)}}}});
    return true;
  }
  const double wait = seconds(t->retry_at - now);
  decisions_.record({.at = wall,
                     .function = action.function,
                     .action = "unmet",
                     .subject = revision_id(action.function, start->revision),
                     .reason = {"start-backoff",
                                "Start " + std::to_string(t->tries + 1) + " of revision " +
                                    std::to_string(start->revision) + " waits for " +
                                    std::to_string(std::lround(std::ceil(wait))) +
                                    " s, as the last one failed: " + t->error + ".",
                                {{"tries", static_cast<double>(t->tries)},
                                 {"failures", static_cast<double>(t->failures)},
                                 {"wait_s", wait}}}});
  return true;
}

// What was given up wants nothing: its reason stays the one that a user can act on.
bool Control::is_given_up_and_unmet(const Action& action) const {
  if (!std::holds_alternative<Unmet>(action.what)) return false;
  const Starts::Trouble* t =
      starts_.trouble(action.function, functions_.at(action.function).stored.newest);
  return t != nullptr && t->given_up;
}

InstanceId Control::new_id(const FunctionName& f, int revision) {
  Random random(++next_id_);
  std::string prefix = f.space == "default" ? f.name : f.space + "." + f.name;
  prefix.resize(std::min<size_t>(prefix.size(), 40));
  while (prefix.ends_with('.')) prefix.pop_back();  // ".-" is in no name of a Pod
  return prefix + "-" + std::to_string(revision) + "-" + base36(random.next(), 5);
}

// An order that its node has not answered in time may still be carried out: it counts as given, and
// a later observation shows what came of it.
static Result<void> given(Result<void> told) {
  if (!told.ok() && told.error().kind == ErrorKind::kTimeout) return {};
  return told;
}

Result<void> Control::carry_out(const StartInstance& start, FunctionState& f, Decision& d,
                                Time now) {
  const FunctionSpec& spec = spec_of(f.stored, start.revision);
  const Instance i{.id = new_id(start.function, start.revision),
                   .function = start.function,
                   .revision = start.revision,
                   .parts = start.parts,
                   .batch = start.batch,
                   .started = now,
                   .arbiter = start.arbiter};
  d.subject = i.id;
  StartOrder order{.instance = i};
  if (spec.is_inference()) {
    const Device* device = control::find(seen_.devices, i.device());
    const DeviceType type = device != nullptr ? type_of(*device) : DeviceType();
    const ModelSpec& model = spec.model_on(type);
    Batching batching = spec.inference().batching;
    batching.max_size = most_at_once(spec, type);
    order.birth =
        kind_of(model).birth(models_ != nullptr ? models_->for_start(model) : model, batching);
  } else {
    if (training_ == nullptr)
      return Error{ErrorKind::kUnavailable, "nothing here controls training jobs"};
    SLUICE_ASSIGN(program,
                  training_->worker(start.function, i.id, cores_of(start.first(), seen_.devices)));
    order.birth = std::move(program);
  }
  SLUICE_TRY(given(cluster_.start(order)));
  starts_.ordered(i, now);
  f.present.alive = true;
  // There was no space before. A start that failed before may fail again.
  if (starts_.trouble(start.function, start.revision) == nullptr) f.unavailable.clear();
  ++accounting_.of(start.function).starts;
  keeper_.counted();
  return {};
}

Result<void> Control::carry_out(const ResizeInstance& resize, FunctionState& f, Time now) {
  SLUICE_TRY(given(cluster_.resize(resize.instance, resize.parts)));
  ++accounting_.of(f.stored.name).resizes;
  keeper_.counted();
  if (ObservedInstance* o = find_instance(seen_.instances, resize.instance)) {
    if (resize.first().slice.quota.request < o->instance.slice().quota.request)
      f.last_scale_down = now;
    o->instance.parts = resize.parts;
  }
  return {};
}

void Control::carry_out(const Action& action, Time now, UnixMillis wall) {
  Decision d{.at = wall,
             .function = action.function,
             .action = std::string(name_of(action.what)),
             .detail = wire::to_json(action),
             .reason = action.reason};
  FunctionState& f = functions_.at(action.function);
  Result<void> outcome;
  Nanos least{0};  // how long the demand must stay unmet before the decision is recorded
  if (const auto* start = std::get_if<StartInstance>(&action.what)) {
    outcome = carry_out(*start, f, d, now);
  } else if (const auto* stop = std::get_if<StopInstance>(&action.what)) {
    d.subject = stop->instance;
    this->stop(stop->instance, now, settings_.drain);
    ++accounting_.of(action.function).stops;
    keeper_.counted();
    f.last_scale_down = now;
  } else if (const auto* resize = std::get_if<ResizeInstance>(&action.what)) {
    d.subject = resize->instance;
    outcome = carry_out(*resize, f, now);
  } else if (std::holds_alternative<Unmet>(action.what)) {
    d.subject = to_string(action.function);
    f.unavailable = f.present.alive ? "" : action.reason.text;
    if (f.unavailable.empty()) least = settings_.unmet_after;
  } else {
    d.subject = std::get<Loan>(action.what).node;
  }
  if (!outcome.ok()) d.fault = outcome.error().message;
  if (d.action != "unmet" && d.fault.empty()) return decisions_.record(std::move(d));
  const Nanos pause = 3 * std::max(f.bundle->cadence.decide_every, settings_.decide_at_rest);
  decisions_.record_vain(std::move(d), least, pause);
}

}  // namespace sluice::control
