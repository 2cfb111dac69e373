#include "control/kube/operator.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/log.h"
#include "control/cluster.h"
#include "control/kube/pod_spec.h"
#include "kube/time_text.h"

namespace sluice::control {
namespace {

using nlohmann::json;
using wire::http::verb;

// What it names, a node or a model, may be there by then: at first soon, as a cluster that starts.
constexpr UnixMillis kFirstRetry = 1'000;
constexpr UnixMillis kLastRetry = 60'000;
constexpr UnixMillis kRatesEvery = 10'000;
constexpr size_t kMostWaiting =
    10'000;                      // writes; Events beyond are left out while no server answers
constexpr int kDecisions = 500;  // that one turn turns into Events at most

std::string path_of(const FunctionName& f) {
  return "/v1/functions/" + f.space + "/" + f.name;
}

// Whether the status says that this generation was accepted.
bool was_accepted(const FunctionObject& object) {
  if (object.observed_generation() != object.generation) return false;
  for (const json& c : object.status.value("conditions", json::array()))
    if (c.value("type", "") == "Degraded") return c.value("reason", "") != "Refused";
  return false;
}

// Each line begins with "FILE:LINE ", of a text that only this process has seen.
std::string without_lines(const std::string& message, const std::string& file) {
  std::istringstream lines(message);
  const std::string begin = file + ":";
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find_first_not_of("0123456789", std::min(begin.size(), line.size()));
    if (line.starts_with(begin) && end != line.npos && line[end] == ' ') line.erase(0, end + 1);
    out += (out.empty() ? "" : "\n") + line;
  }
  return out;
}

bool may_be_repeated(const Error& e) {
  return e.kind == ErrorKind::kUnavailable || e.kind == ErrorKind::kTimeout ||
         e.kind == ErrorKind::kInternal;
}

// Without what a status has of the time at which it was made.
json without_times(json status) {
  if (const auto all = status.find("conditions"); all != status.end())
    for (json& condition : *all) condition.erase("lastTransitionTime");
  return status;
}

// What differs from `before`, for a merge patch; nothing if all is as it was.
json changes(const json& before, const json& after) {
  json out = json::object();
  for (const auto& [key, value] : after.items())
    if (const auto old = before.find(key); old == before.end() || *old != value) out[key] = value;
  return out;
}

}  // namespace

Operator::Operator(wire::Endpoint api, const Functions& functions, const Functions& trainings,
                   ObjectWriter& writer, std::string gateway)
    : api_(std::move(api), Seconds(120)),
      functions_(functions),
      trainings_(trainings),
      writer_(writer),
      gateway_(std::move(gateway)) {}

void Operator::turn(UnixMillis wall) {
  std::erase_if(written_,
                [&](const auto& w) { return kube::has_passed(w.second.at, wall, kRatesEvery); });
  const Functions::Objects objects = functions_.all();
  Result<Rows> known = rows();
  if (!known.ok()) return;
  const bool deleted = delete_others(objects, *known);
  const bool applied = apply_changed(objects, *known, wall);
  refuse_trainings(wall);
  write_events(objects, wall);
  if (deleted || applied) known = rows();
  if (!known.ok()) return;
  for (const auto& [key, object] : objects) {
    const auto handled = handled_.find(object->name);
    if (handled == handled_.end() || object->deleting) continue;
    const auto row = known->find(object->name);
    show(handled->second, object, row != known->end() ? std::move(row->second) : json(), wall);
  }
}

// `row` is null if the loop does not know the function.
void Operator::show(Handled& h, const Object& object, json row, UnixMillis wall) {
  if (h.shown && h.shown->object == object && h.shown->row == row) return;
  json status = status_of(row, h.applying, object->status, wall);
  if (!row.is_null()) status["selector"] = std::string(kFunctionLabel) + "=" + object->name.name;
  if (!row.is_null() && !gateway_.empty())
    status["url"] = gateway_ + "/v2/models/" + served_name(object->name);
  if (write_status(*object, std::move(status), wall))
    h.shown = Shown{object, std::move(row)};
  else
    h.shown.reset();
}

Result<Operator::Rows> Operator::rows() {
  SLUICE_ASSIGN(list, api_.json(verb::get, "/v1/functions?brief=1"));
  Rows out;
  for (json& row : list) {
    const FunctionName name{row.value("namespace", ""), row.value("name", "")};
    out.emplace(name, std::move(row));
  }
  return out;
}

bool Operator::delete_others(const Functions::Objects& objects, const Rows& rows) {
  bool any = false;
  for (const auto& [name, row] : rows) {
    const auto object = objects.find({name.space, name.name});
    if ((object != objects.end() && !object->second->deleting) || name.space == kProfiling)
      continue;
    const auto gone = api_.json(verb::delete_, path_of(name));
    if (!gone.ok()) log::warn("{}: {}", to_string(name), gone.error().message);
    handled_.erase(name);
    any = true;
  }
  return any;
}

bool Operator::apply_changed(const Functions::Objects& objects, const Rows& rows, UnixMillis wall) {
  bool any = false;
  std::set<FunctionName> there;
  for (const auto& [key, object] : objects) {
    if (object->deleting) continue;
    there.insert(object->name);
    Handled& h = handled_[object->name];
    const bool known = rows.contains(object->name);
    const bool same = h.uid == object->uid && h.applying.generation == object->generation;
    const bool settled = h.applying.accepted
                             ? known
                             : !kube::has_passed(h.tried, wall, h.pause) && !h.applying.why.empty();
    if (same && settled) continue;
    if (!same) h.announced.clear();
    const bool restored = h.uid.empty() && known && was_accepted(*object);
    h.uid = object->uid;
    h.tried = wall;
    h.pause = same ? std::min(2 * h.pause, kLastRetry) : kFirstRetry;
    h.shown.reset();
    h.applying =
        restored ? Applying{object->generation, true, ""} : apply(*object, h.announced, wall);
    any |= !restored;
  }
  std::erase_if(handled_, [&](const auto& entry) { return !there.contains(entry.first); });
  return any;
}

Applying Operator::apply(const FunctionObject& object, std::string& announced, UnixMillis wall) {
  const std::string target = "/v1/functions?place=cluster&at_once=1&file=" + object.name.name;
  const auto response = api_.call(verb::post, target, object.file().dump(1));
  Applying out{object.generation};
  if (!response.ok()) {
    log::warn("{}: {}", to_string(object.name), response.error().message);
    return out;
  }
  const json answer = json::parse(response->body(), nullptr, false);
  if (response->result_int() / 100 == 2) {
    out.accepted = true;
    announced.clear();
    return out;
  }
  const Error error{wire::error_kind(static_cast<int>(response->result_int())),
                    without_lines(answer.is_object() ? answer.value("error", "") : response->body(),
                                  object.name.name)};
  log::info("{}: {}", to_string(object.name), error.message);
  out.why = error.message;
  if (may_be_repeated(error) || error.message == announced) return out;
  announced = error.message;
  json event = event_of({{"function", to_string(object.name)},
                         {"action", "refused"},
                         {"at", wall},
                         {"number", object.generation},
                         {"fault", error.message}},
                        object.uid, object.kind, wall);
  writer_.put(
      "event " + to_string(object.name) + " refused",
      kube::Call(verb::post, path_in("/api/v1/events", object.name.space), std::move(event)));
  return out;
}

// What was written is in the object a moment later, unless it was refused.
bool Operator::write_status(const FunctionObject& object, json status, UnixMillis wall) {
  const json news = changes(object.status, status);
  if (news.empty()) return true;
  const std::string path =
      path_in(object.kind == "TrainingFunction" ? kTrainingPath : kFunctionsPath, object.name.space,
              object.name.name) +
      "/status";
  const json said = without_times(news);
  const auto last = written_.find(path);
  if (last != written_.end()) {
    json after = object.status;
    after.update(news);
    if (last->second.news == said || !differ_in_state(object.status, after)) return false;
  }
  written_[path] = {said, wall};
  writer_.put(path, kube::Call(verb::patch, path, {{"status", news}}, kube::kMergePatch));
  return false;
}

// From the first turn on: a restart repeats no Event.
void Operator::write_events(const Functions::Objects& objects, UnixMillis wall) {
  const std::string later =
      "?limit=" + std::to_string(kDecisions) + "&after=" + std::to_string(last_decision_);
  const auto found =
      api_.json(verb::get, "/v1/decisions" + (last_decision_ < 0 ? "?limit=1" : later));
  if (!found.ok() || !found->is_array()) return;
  const int64_t seen = last_decision_;
  for (const json& d : *found)
    last_decision_ = std::max(last_decision_, d.value("number", int64_t{0}));
  if (seen < 0) {
    last_decision_ = std::max<int64_t>(last_decision_, 0);
    return;
  }
  for (auto d = found->rbegin(); d != found->rend(); ++d) {
    if (d->value("number", int64_t{0}) <= seen) continue;
    const FunctionName name = function_name(d->value("function", ""));
    const auto object = objects.find({name.space, name.name});
    if (object == objects.end() || writer_.waiting() >= kMostWaiting) continue;
    json event = event_of(*d, object->second->uid, object->second->kind, wall);
    const std::string key =
        "event " + name.space + "/" + event["metadata"]["name"].get<std::string>();
    writer_.put(key,
                kube::Call(verb::post, path_in("/api/v1/events", name.space), std::move(event)));
  }
}

void Operator::refuse_trainings(UnixMillis wall) {
  for (const auto& [key, object] : trainings_.all()) {
    const Applying applying{object->generation, false,
                            "Training functions are not run on Kubernetes yet."};
    (void)write_status(*object, status_of(json(), applying, object->status, wall), wall);
  }
}

}  // namespace sluice::control
