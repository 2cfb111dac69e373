#include "control/routes.h"

#include <algorithm>

namespace sluice::control {

using nlohmann::json;

const FunctionSpec& spec_of(const StoredFunction& f, int revision) {
  for (const Revision& r : f.revisions)
    if (r.number == revision) return r.spec;
  return f.revisions.back().spec;
}

std::vector<std::pair<int, int>> traffic_split(const StoredFunction& f, bool newest_ready) {
  if (f.newest == f.serving) return {{f.newest, 100}};
  const int wanted = spec_of(f, f.newest).canary_traffic_percent;
  const int canary = newest_ready && wanted < 100 ? wanted : 0;
  return {{f.serving, 100 - canary}, {f.newest, canary}};
}

json routing_table(const std::vector<RoutedFunction>& functions,
                   const std::vector<ObservedInstance>& instances, const Predictor& predictor) {
  json out = json::array();
  for (const RoutedFunction& routed : functions) {
    const StoredFunction& f = *routed.function;
    const FunctionSpec& spec = spec_of(f, f.newest);
    const bool newest_ready = std::ranges::any_of(instances, [&](const ObservedInstance& o) {
      return o.instance.function == f.name && o.instance.revision == f.newest &&
             o.instance.state == InstanceState::kReady;
    });
    json revisions = json::array(), list = json::array();
    for (const auto& [number, percent] : traffic_split(f, newest_ready))
      revisions.push_back({{"number", number}, {"percent", percent}});
    for (const ObservedInstance& o : instances) {
      const Instance& i = o.instance;
      if (i.function != f.name || o.foreign ||
          (i.state != InstanceState::kReady && i.state != InstanceState::kDraining))
        continue;
      const FunctionSpec& own = spec_of(f, i.revision);
      const int credit =
          std::max(own.container_concurrency > 0 ? own.container_concurrency : i.batch, 1);
      const double capability = predictor.throughput(i.function, i.revision,
                                                     {i.batch, i.slice.sm, i.slice.quota.request});
      list.push_back(
          {{"id", i.id},
           {"revision", i.revision},
           {"socket", o.socket},
           {"credit", credit},
           {"batch", std::min(i.batch, credit)},
           {"capability",
            capability > 0 ? capability : i.slice.sm.fraction() * i.slice.quota.request.fraction()},
           {"state", i.state == InstanceState::kReady ? "ready" : "draining"}});
    }
    out.push_back({{"name", to_string(f.name)},
                   {"slo_ms", millis(spec.slo.latency)},
                   {"timeout_ms", millis(spec.timeout)},
                   {"max_queue", spec.max_queue},
                   {"route", routed.route},
                   {"admission", spec.admit_all ? "all" : "in-time"},
                   {"token", spec.token},
                   {"unavailable", routed.unavailable},
                   {"revisions", revisions},
                   {"instances", list}});
  }
  return {{"functions", out}};
}

}  // namespace sluice::control
