#include "wire/json/routing_json.h"

#include "wire/json/json.h"

namespace sluice::wire {
namespace {

using nlohmann::json;

Result<InstanceRoute> instance_route_from(const json& j) {
  Fields f(j, "instance");
  InstanceRoute i;
  i.id = f.text("id");
  i.revision = static_cast<int>(f.integer("revision", 1, 0, 1'000'000'000));
  i.socket = f.text("socket");
  i.credit = static_cast<int>(f.integer("credit", 1, 1, 100'000));
  i.batch = static_cast<int>(f.integer("batch", 1, 1, i.credit));
  i.capability = f.number("capability", 0, 0, 1e12);
  i.ready = f.text("state", "ready") == "ready";
  if (i.id.empty()) f.fail("id", "must not be empty");
  if (i.socket.empty()) f.fail("socket", "must not be empty");
  return f.finish(i);
}

Result<RevisionPercent> revision_percent_from(const json& j) {
  Fields f(j, "revision");
  return f.finish(RevisionPercent{static_cast<int>(f.integer("number", 1, 0, 1'000'000'000)),
                                  static_cast<int>(f.integer("percent", 0, 0, 100))});
}

Result<FunctionRoute> function_route_from(const json& j) {
  Fields f(j, "function");
  FunctionRoute r;
  r.name = function_name(f.text("name"));
  r.slo = from_millis(f.number("slo_ms", 0, 0, 1e9));
  r.timeout = from_millis(f.number("timeout_ms", 60'000, 1, 1e8));
  r.max_queue = static_cast<int>(f.integer("max_queue", 1000, 0, 10'000'000));
  r.admit_all = f.text("admission", "in-time") == "all";
  r.token = f.text("token");
  r.unavailable = f.text("unavailable");
  r.route = f.text("route", r.route);
  r.http = f.boolean("http", false);
  if (r.name.name.empty()) f.fail("name", "must not be empty");
  for (const json& item : f.list("revisions")) {
    auto p = revision_percent_from(item);
    if (!p.ok()) return within(f.text("name"), p.error());
    r.split.push_back(*p);
  }
  for (const json& item : f.list("instances")) {
    auto i = instance_route_from(item);
    if (!i.ok()) return within(f.text("name"), i.error());
    r.instances.push_back(std::move(*i));
  }
  return f.finish(r);
}

using FunctionRoutes = std::map<std::string, FunctionRoute>;

Result<FunctionRoutes> function_routes_from(Fields& f) {
  FunctionRoutes routes;
  for (const json& item : f.list("functions")) {
    SLUICE_ASSIGN(function, function_route_from(item));
    const std::string served = served_name(function.name);
    if (!routes.emplace(served, std::move(function)).second)
      f.fail("functions", "'" + served + "' stands there twice");
  }
  return routes;
}

json function_route_to_json(const FunctionRoute& r) {
  json revisions = json::array(), instances = json::array();
  for (const auto& p : r.split)
    revisions.push_back({{"number", p.revision}, {"percent", p.percent}});
  for (const auto& i : r.instances)
    instances.push_back({{"id", i.id},
                         {"revision", i.revision},
                         {"socket", i.socket},
                         {"credit", i.credit},
                         {"batch", i.batch},
                         {"capability", i.capability},
                         {"state", i.ready ? "ready" : "draining"}});
  return {{"name", to_string(r.name)},
          {"slo_ms", millis(r.slo)},
          {"timeout_ms", millis(r.timeout)},
          {"max_queue", r.max_queue},
          {"admission", r.admit_all ? "all" : "in-time"},
          {"token", r.token},
          {"unavailable", r.unavailable},
          {"route", r.route},
          {"http", r.http},
          {"revisions", revisions},
          {"instances", instances}};
}

json function_routes_to_json(const FunctionRoutes& routes) {
  json functions = json::array();
  for (const auto& [served, route] : routes) functions.push_back(function_route_to_json(route));
  return functions;
}

}  // namespace

Result<RoutingTable> routing_table_from(const json& j) {
  Fields f(j, "routes");
  RoutingTable t;
  t.version = f.integer("version", 0, 0, INT64_MAX);
  SLUICE_ASSIGN(functions, function_routes_from(f));
  t.functions = std::move(functions);
  return f.finish(t);
}

Result<RoutingChange> routing_change_from(const json& j) {
  Fields f(j, "routes");
  RoutingChange c;
  c.since = f.integer("since", 0, 0, INT64_MAX);
  c.version = f.integer("version", 0, 0, INT64_MAX);
  SLUICE_ASSIGN(functions, function_routes_from(f));
  c.changed = std::move(functions);
  for (const json& name : f.list("removed")) {
    if (!name.is_string())
      f.fail("removed", "must be a list of names");
    else
      c.removed.push_back(function_name(name.get<std::string>()));
  }
  return f.finish(c);
}

json to_json(const RoutingTable& t) {
  return {{"version", t.version}, {"functions", function_routes_to_json(t.functions)}};
}

json to_json(const RoutingChange& c) {
  json removed = json::array();
  for (const FunctionName& name : c.removed) removed.push_back(to_string(name));
  return {{"since", c.since},
          {"version", c.version},
          {"functions", function_routes_to_json(c.changed)},
          {"removed", removed}};
}

}  // namespace sluice::wire
