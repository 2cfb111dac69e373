#include "control/kube/function_status.h"

#include <algorithm>
#include <cmath>

#include "base/words.h"
#include "control/kube/objects.h"
#include "kube/time_text.h"

namespace sluice::control {
namespace {

using nlohmann::json;

constexpr size_t kLongestMessage = 1000;  // characters

struct Condition {
  const char* type;
  bool holds = false;
  std::string reason, message;
};

// A reason is a word in CamelCase: "start-failed" → "StartFailed".
std::string camel(const std::string& words) {
  std::string out;
  bool begin = true;
  for (const char c : words) {
    if (!std::isalnum(static_cast<unsigned char>(c))) {
      begin = true;
      continue;
    }
    out += begin ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    begin = false;
  }
  return out.empty() ? "Unknown" : out;
}

std::string text(const json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? found->get<std::string>() : "";
}

// A sentence, before another.
std::string as_sentence(std::string words) {
  return words.ends_with('.') ? words : words + ".";
}

std::string instances_text(int n, const char* one, const char* several) {
  return std::to_string(n) + (n == 1 ? " instance " : " instances ") + (n == 1 ? one : several);
}

int replicas(const json& row, const char* state) {
  return row.is_object() ? row.value("replicas", json::object()).value(state, 0) : 0;
}

// Whether its newest revision does not serve all that it should yet.
Condition progressing(const json& row, const Applying& applying) {
  Condition c{"Progressing"};
  if (!applying.accepted && applying.why.empty())
    return {"Progressing", true, "Checking", "Its specification is being checked."};
  if (row.is_null()) return {"Progressing", false, "NotAccepted", "Nothing is served of it."};
  const int newest = row.value("revision", 0), serving = row.value("serving", 0);
  if (!text(row, "rollout_failed").empty())
    return {"Progressing", false, "RolloutFailed", text(row, "rollout_failed")};
  if (newest != serving)
    return {"Progressing", true, "RollingOut",
            "Revision " + std::to_string(newest) + " takes over from revision " +
                std::to_string(serving) + "."};
  if (const int starting = replicas(row, "starting"); starting > 0)
    return {"Progressing", true, "Starting", instances_text(starting, "starts.", "start.")};
  if (replicas(row, "ready") == 0 && !text(row, "unavailable").empty())
    return {"Progressing", false, "Unavailable", "Nothing is served of it."};
  return {"Progressing", false, "Settled", "Revision " + std::to_string(newest) + " serves."};
}

Condition ready(const json& row, const Applying& applying) {
  if (row.is_null() && !applying.why.empty()) return {"Ready", false, "Refused", applying.why};
  if (row.is_null()) return {"Ready", false, "Checking", "It is not served yet."};
  if (const int n = replicas(row, "ready"); n > 0)
    return {"Ready", true, "Serving", instances_text(n, "is ready.", "are ready.")};
  if (const std::string why = text(row, "unavailable"); !why.empty())
    return {"Ready", false, "Unavailable", why};
  if (row.value("replicas", json::object()).value("min", 1) == 0)
    return {"Ready", true, "ScaledToZero", "No instance runs; a request starts one, and waits."};
  return {"Ready", false, "Starting", "No instance is ready yet."};
}

std::string too_few(const json& row, int there, int least) {
  const std::string why = text(row, "unavailable");
  return instances_text(there, "is", "are") + " there, of " + std::to_string(least) +
         " at least. " + (why.empty() ? "Its Events say why no other starts." : why);
}

// What its owner should look at.
Condition degraded(const json& row, const Applying& applying) {
  if (!applying.accepted && !applying.why.empty())
    return {"Degraded", true, "Refused",
            row.is_null() ? applying.why
                          : as_sentence(applying.why) + " The revision before serves on."};
  constexpr const char* kGood = "Nothing needs a look.";
  if (row.is_null()) return {"Degraded", false, "AsExpected", kGood};
  if (const std::string why = text(row, "rollout_failed"); !why.empty())
    return {"Degraded", true, "RolloutFailed", why};
  if (const int n = row.value("start_failures", 0); n > 0)
    return {"Degraded", true, "StartsFail",
            std::to_string(n) + (n == 1 ? " start" : " starts") + " of its newest revision " +
                (n == 1 ? "has" : "have") + " failed" +
                (text(row, "unavailable").empty() ? "." : ": " + text(row, "unavailable"))};
  // By no fault of its own: it is tried again, unless there is a later reason why not.
  const std::string error = text(row, "start_error");
  if (!error.empty() && replicas(row, "ready") == 0 && text(row, "unavailable").empty())
    return {"Degraded", true, "StartsFail", as_sentence("The last start failed: " + error)};
  const int there = replicas(row, "ready") + replicas(row, "starting"),
            least = replicas(row, "min");
  if (there < least) return {"Degraded", true, "TooFew", too_few(row, there, least)};
  if (row.value("stale_ms", int64_t{0}) > 5000)
    return {"Degraded", true, "NotSeen",
            "A node or gateway does not answer; this is its last report."};
  if (row.value("violations_pct", 0.0) > 100 - row.value("percentile", 95.0) &&
      row.value("slo_ms", 0.0) > 0)
    return {"Degraded", true, "ObjectiveMissed",
            "More of the last minute's requests were late than its objective allows."};
  return {"Degraded", false, "AsExpected", kGood};
}

json to_json(const Condition& c, const Applying& applying, const json& before, UnixMillis wall) {
  const std::string holds = c.holds ? "True" : "False";
  std::string since = kube::second_time(wall);
  for (const json& old : before.value("conditions", json::array()))
    if (old.value("type", "") == c.type && old.value("status", "") == holds)
      since = old.value("lastTransitionTime", since);
  return {{"type", c.type},
          {"status", holds},
          {"reason", c.reason},
          {"message", clipped(c.message, kLongestMessage)},
          {"lastTransitionTime", since},
          {"observedGeneration", applying.generation}};
}

// Two significant digits: a status that changes with each request would be written each second.
double rounded(double value) {
  if (value < 0.1) return 0;
  const double digits = std::floor(std::log10(value)) - 1, scale = std::pow(10, std::abs(digits));
  return digits >= 0 ? std::round(value / scale) * scale : std::round(value * scale) / scale;
}

// Kubernetes 1.20 takes an empty text in a custom resource for null, and refuses it.
void set_text(json& out, const char* key, const std::string& value) {
  if (!value.empty()) out[key] = value;
}

}  // namespace

json status_of(const json& row, const Applying& applying, const json& before, UnixMillis wall) {
  json out{{"observedGeneration", applying.generation},
           {"replicas", replicas(row, "ready") + replicas(row, "starting")},
           {"ready", replicas(row, "ready")}};
  if (row.is_object()) {
    out["newest"] = row.value("revision", 0);
    out["serving"] = row.value("serving", 0);
    out["rate"] = rounded(row.value("rps", 0.0));
    out["p95Ms"] = rounded(row.value("p95_ms", 0.0));
    set_text(out, "policy", text(row, "policy"));
    const json last = row.value("last_decision", json());
    if (last.is_object()) set_text(out, "lastDecision", text(last, "summary"));
  }
  json conditions = json::array();
  for (const Condition& c :
       {ready(row, applying), progressing(row, applying), degraded(row, applying)})
    conditions.push_back(to_json(c, applying, before, wall));
  out["conditions"] = std::move(conditions);
  return out;
}

bool differ_in_state(const json& a, const json& b) {
  const auto state = [](json s) {
    if (!s.is_object()) return json::object();
    for (const char* key : {"rate", "p95Ms", "served"}) s.erase(key);
    return s;
  };
  return state(a) != state(b);
}

json event_of(const json& decision, const std::string& uid, const std::string& kind,
              UnixMillis wall) {
  const std::string function = text(decision, "function");
  const size_t slash = function.find('/');
  const std::string space = function.substr(0, slash), name = function.substr(slash + 1);
  const std::string at = kube::second_time(decision.value("at", wall));
  const json reason = decision.value("reason", json::object());
  const bool fault = !text(decision, "fault").empty();
  std::string message = text(reason, "text");
  if (const std::string summary = text(decision, "summary"); !summary.empty())
    message = summary + (message.empty() ? "" : " — " + message);
  if (fault) message += (message.empty() ? "" : " It failed: ") + text(decision, "fault");
  return {{"apiVersion", "v1"},
          {"kind", "Event"},
          {"metadata",
           {{"name", name + "." + std::to_string(decision.value("number", int64_t{0})) + "-" +
                         std::to_string(decision.value("at", wall))},
            {"namespace", space}}},
          {"involvedObject",
           {{"apiVersion", kGroup},
            {"kind", kind},
            {"namespace", space},
            {"name", name},
            {"uid", uid}}},
          {"reason", camel(text(decision, "action"))},
          {"message", clipped(message, kLongestMessage)},
          {"type", fault || text(decision, "action") == "unmet" ? "Warning" : "Normal"},
          {"source", {{"component", "sluice-controller"}}},
          {"firstTimestamp", at},
          {"lastTimestamp", at},
          {"count", 1}};
}

}  // namespace sluice::control
