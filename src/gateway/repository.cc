#include "gateway/repository.h"

#include <algorithm>

#include "wire/json/json.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

LocalAnswer refused(const std::string& why, int status = 400) {
  return as_json({{"error", why}}, status);
}

// Returns the members of a body, which may be absent.
Result<json> members(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == body.npos) return json::object();
  SLUICE_ASSIGN(parsed, wire::parse_json(body));
  if (!parsed.is_object())
    return Error{ErrorKind::kInvalid, "the body must be a JSON object, or empty"};
  return std::move(parsed);
}

bool is_ready(const FunctionRoute& f, int revision) {
  return std::ranges::any_of(
      f.instances, [&](const InstanceRoute& i) { return i.ready && i.revision == revision; });
}

// Returns why a `load` with such a body would not do what it says; empty if it would.
std::string not_applied(const json& asked) {
  for (const auto& [member, value] : asked.items()) {
    if (member != "parameters" && !value.is_null()) return "'" + member + "' is not applied";
    if (value.is_null()) continue;
    if (!value.is_object()) return "parameters: must be an object";
    for (const auto& [name, parameter] : value.items())
      if (!parameter.is_null())
        return "parameters: '" + name + "' is not applied; change the function file and run " +
               "sluice apply";
  }
  return "";
}

}  // namespace

bool is_ready(const FunctionRoute& f) {
  return std::ranges::any_of(f.split, [&](const policy::RevisionPercent& p) {
    return p.percent > 0 && is_ready(f, p.revision);
  });
}

LocalAnswer repository_index(const RoutingTable& table, std::string_view body) {
  const auto asked = members(body);
  if (!asked.ok()) return refused(asked.error().message);
  const json ready = asked->value("ready", json());
  if (!ready.is_null() && !ready.is_boolean())
    return refused("ready: " + ready.dump() + " is not allowed, true and false are");
  json index = json::array();
  for (const auto& [served, f] : table.functions)
    for (const policy::RevisionPercent& p : f.split) {
      const bool serves = is_ready(f, p.revision);
      if (ready == true && !serves) continue;
      const char* state = serves ? "READY" : f.unavailable.empty() ? "LOADING" : "UNAVAILABLE";
      index.push_back({{"name", served},
                       {"version", std::to_string(p.revision)},
                       {"state", state},
                       {"reason", serves ? "" : f.unavailable}});
    }
  return as_json(index);
}

LocalAnswer load_or_unload(const RoutingTable& table, std::string_view rest,
                           std::string_view body) {
  const size_t slash = rest.find('/');
  const std::string name(rest.substr(0, slash));
  const std::string_view what = slash == rest.npos ? "" : rest.substr(slash + 1);
  if (what != "load" && what != "unload") return refused("no such path", 404);
  if (!table.functions.contains(name))
    return refused("failed to " + std::string(what) + " '" + name +
                       "': there is no such function; sluice apply makes it",
                   404);
  if (what == "unload") return refused("function '" + name + "' is unloaded by sluice delete");
  const auto asked = members(body);
  if (!asked.ok()) return refused(asked.error().message);
  if (const std::string why = not_applied(*asked); !why.empty()) return refused(why);
  return as_json(json::object());
}

}  // namespace sluice::gateway
