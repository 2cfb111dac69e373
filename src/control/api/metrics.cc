#include "control/api/metrics.h"

#include "wire/http/prometheus.h"

namespace sluice::control {
namespace {

using wire::MetricFamily;
using wire::MetricLabels;
using wire::with;
using Type = MetricFamily::Type;

MetricLabels of(const FunctionName& f) {
  return {{"namespace", f.space}, {"function", f.name}};
}

// Adds each function's traffic since its creation.
void add_traffic(std::string& out, const Control& control) {
  const auto family = [&](const char* name, Type type, const char* help, auto value) {
    MetricFamily f(out, name, type, help);
    for (const auto& [function, r] : control.functions())
      f.add(of(function), static_cast<double>(value(r)));
  };
  using R = FunctionState;
  family("sluice_requests_total", Type::kCounter, "Requests that named the function.",
         [](const R& r) { return r.traffic.totals().requests; });
  family("sluice_inferences_total", Type::kCounter, "Inferences of answered requests.",
         [](const R& r) { return r.traffic.totals().inferences; });
  family("sluice_cold_starts_total", Type::kCounter,
         "Requests that waited for an instance to start.",
         [](const R& r) { return r.traffic.totals().cold_starts; });
  family("sluice_retries_total", Type::kCounter, "Requests sent again because an instance died.",
         [](const R& r) { return r.traffic.totals().retried; });
  family("sluice_requests_waiting", Type::kGauge, "Requests that wait for an instance.",
         [](const R& r) { return r.traffic.queued(); });
  family("sluice_requests_in_flight", Type::kGauge, "Requests at an instance.",
         [](const R& r) { return r.traffic.in_flight(); });
  family("sluice_forecast_rate", Type::kGauge,
         "Inferences per second that the function is made ready for.",
         [](const R& r) { return r.forecast.expected; });

  MetricFamily ended(out, "sluice_requests_ended_total", Type::kCounter,
                     "Requests by how they ended.");
  for (const auto& [function, r] : control.functions()) {
    const TrafficTotals& t = r.traffic.totals();
    ended.add(with(of(function), "outcome", "ok"), static_cast<double>(t.ok));
    ended.add(with(of(function), "outcome", "invalid"), static_cast<double>(t.invalid));
    ended.add(with(of(function), "outcome", "shed"), static_cast<double>(t.shed));
    ended.add(with(of(function), "outcome", "failed"), static_cast<double>(t.failed));
  }
  MetricFamily violations(out, "sluice_slo_violations_total", Type::kCounter,
                          "Requests that were late, shed or failed.");
  for (const auto& [function, r] : control.functions()) {
    const TrafficTotals& t = r.traffic.totals();
    violations.add(with(of(function), "kind", "late"), static_cast<double>(t.late));
    violations.add(with(of(function), "kind", "shed"), static_cast<double>(t.shed));
    violations.add(with(of(function), "kind", "failed"), static_cast<double>(t.failed));
  }
  MetricFamily duration(out, "sluice_request_duration_seconds", Type::kHistogram,
                        "Arrival to the last byte of the answer.");
  for (const auto& [function, r] : control.functions())
    duration.add(of(function), r.traffic.totals().latency);
}

// Adds each function's holdings, use and cost.
void add_accounts(std::string& out, const Control& control) {
  const auto family = [&](const char* name, Type type, const char* help, auto value) {
    MetricFamily f(out, name, type, help);
    for (const auto& [function, r] : control.functions()) {
      const Account a = control.accounting().of(function);
      f.add(of(function), static_cast<double>(value(a, r)));
    }
  };
  using A = Account;
  using R = FunctionState;
  family("sluice_slice_seconds_total", Type::kCounter, "Device-seconds reserved.",
         [](const A& a, const R&) { return a.slice_seconds; });
  family("sluice_used_seconds_total", Type::kCounter, "Device-seconds used.",
         [](const A& a, const R&) { return a.used_seconds; });
  family("sluice_cost_total", Type::kCounter, "Cost, in the unit of the devices' prices.",
         [](const A& a, const R&) { return a.cost; });
  family("sluice_cost_per_thousand_requests", Type::kGauge, "Cost per 1,000 answered requests.",
         [](const A& a, const R& r) { return a.per_thousand(r.traffic.totals().ok); });
  family("sluice_resizes_total", Type::kCounter, "Slices changed at run time.",
         [](const A& a, const R&) { return a.resizes; });
  family("sluice_starts_total", Type::kCounter, "Instances started.",
         [](const A& a, const R&) { return a.starts; });
  family("sluice_stops_total", Type::kCounter, "Instances stopped.",
         [](const A& a, const R&) { return a.stops; });
}

MetricLabels of(const GroupKey& g) {
  MetricLabels labels = of(g.function);
  const auto label = [&](std::string_view key, std::string text) {
    labels.emplace_back(key, std::move(text));
  };
  label("revision", std::to_string(g.revision));
  label("type", g.type);
  label("sm", wire::metric_number(g.sm.fraction()));
  label("quota", wire::metric_number(g.quota.fraction()));
  label("batch", std::to_string(g.batch));
  return labels;
}

// Adds what alike instances of a function have answered since the loop began.
void add_groups(std::string& out, const Control& control) {
  const auto family = [&](const char* name, Type type, const char* help, auto value) {
    MetricFamily f(out, name, type, help);
    for (const auto& [key, group] : control.groups().all()) f.add(of(key), value(group));
  };
  using G = InstanceGroup;
  family("sluice_group_instances", Type::kGauge, "Ready instances of the group.",
         [](const G& g) { return static_cast<double>(g.now().instances); });
  family("sluice_group_in_flight", Type::kGauge, "Requests at the group's instances.",
         [](const G& g) { return static_cast<double>(g.now().in_flight); });
  family("sluice_group_requests_total", Type::kCounter, "Requests that the group has answered.",
         [](const G& g) { return static_cast<double>(g.totals().requests); });
  family("sluice_group_inferences_total", Type::kCounter, "Inferences of these requests.",
         [](const G& g) { return static_cast<double>(g.totals().inferences); });
  family("sluice_group_request_duration_seconds", Type::kHistogram,
         "Arrival to the last byte of the answer.",
         [](const G& g) -> const Histogram& { return g.totals().spread.latency; });
  family("sluice_group_request_bytes", Type::kHistogram, "Bodies of the answered requests.",
         [](const G& g) -> const SizeHistogram& { return g.totals().spread.body_bytes; });
}

void add_instances(std::string& out, const Control& control) {
  const auto count = [&](const FunctionName& f, InstanceState state) {
    double n = 0;
    for (const ObservedInstance& o : control.seen().instances)
      n += ours(o) && o.instance.function == f && o.instance.state == state;
    return n;
  };
  MetricFamily ready(out, "sluice_instances_ready", Type::kGauge, "Instances that serve.");
  for (const auto& [f, r] : control.functions()) ready.add(of(f), count(f, InstanceState::kReady));
  MetricFamily starting(out, "sluice_instances_starting", Type::kGauge, "Instances that start.");
  for (const auto& [f, r] : control.functions())
    starting.add(of(f), count(f, InstanceState::kStarting));

  const auto labels = [&](const Instance& i, const Part& p) {
    return with(
        with(with(of(i.function), "revision", std::to_string(i.revision)), "instance", i.id),
        "device", p.device);
  };
  const auto family = [&](const char* name, Type type, const char* help, auto value) {
    MetricFamily f(out, name, type, help);
    for (const ObservedInstance& o : control.seen().instances)
      if (alive(o)) f.add(labels(o.instance, o.instance.first()), static_cast<double>(value(o)));
  };
  const auto by_part = [&](const char* name, Type type, const char* help, auto value) {
    MetricFamily f(out, name, type, help);
    for (const ObservedInstance& o : control.seen().instances)
      if (alive(o))
        for (const Part& p : o.instance.parts) f.add(labels(o.instance, p), value(p));
  };
  using O = ObservedInstance;
  by_part("sluice_instance_sm_ratio", Type::kGauge, "Share of the device's cores that is held.",
          [](const Part& p) { return p.slice.sm.fraction(); });
  by_part("sluice_instance_request_ratio", Type::kGauge, "Share of time that is reserved.",
          [](const Part& p) { return p.slice.quota.request.fraction(); });
  by_part("sluice_instance_limit_ratio", Type::kGauge, "Share of time that may be used at most.",
          [](const Part& p) { return p.slice.quota.limit.fraction(); });
  family("sluice_instance_used_seconds_total", Type::kCounter,
         "Busy time at its own share of cores.", [](const O& o) { return seconds(o.used); });
  family("sluice_instance_peak_memory_bytes", Type::kGauge, "The most memory it had.",
         [](const O& o) { return o.peak_memory; });
  const auto of_gpus = [&](const char* name, const char* help, auto value) {
    MetricFamily f(out, name, Type::kGauge, help);
    for (const O& o : control.seen().instances)
      if (alive(o) && o.memory_held)
        f.add({{"instance", o.instance.id}, {"device", o.instance.device()}},
              static_cast<double>(value(o)));
  };
  of_gpus("sluice_instance_device_memory_held_bytes",
          "Memory of its GPUs that its processes hold, contexts and headroom included.",
          [](const O& o) { return *o.memory_held; });
  of_gpus("sluice_instance_device_memory_limit_bytes",
          "Memory of its GPUs that they may hold together.",
          [](const O& o) { return memory_limit(o); });
  MetricFamily outside(out, "sluice_instance_outside_cgroup_seconds_total", Type::kCounter,
                       "CPU time of processes that have left their slice's cgroup.");
  for (const O& o : control.seen().instances)
    if (o.outside > Nanos(0)) outside.add({{"instance", o.instance.id}}, seconds(o.outside));
  MetricFamily ungated(out, "sluice_instance_ungated_seconds_total", Type::kCounter,
                       "Busy time of the GPU past the hook, by its own account; counts as used.");
  for (const Device& d : control.seen().devices)
    for (const O& o : control.seen().instances)
      if (d.kind == DeviceKind::kCuda && o.instance.device() == d.id && alive(o))
        ungated.add({{"instance", o.instance.id}, {"device", d.id}}, seconds(o.ungated));
}

void add_devices(std::string& out, const Control& control) {
  MetricFamily reserved(out, "sluice_device_reserved_ratio", Type::kGauge,
                        "Share of the device, in cores and time, that is promised.");
  for (const Device& d : control.seen().devices) {
    double sum = 0;
    for (const ObservedInstance& o : control.seen().instances)
      for (const Part& p : o.instance.parts)
        if (alive(o) && p.device == d.id)
          sum += p.slice.sm.fraction() * p.slice.quota.request.fraction();
    reserved.add({{"device", d.id}}, sum);
  }
  MetricFamily memory(out, "sluice_device_memory_bytes", Type::kGauge, "Memory of the device.");
  for (const Device& d : control.seen().devices)
    memory.add({{"device", d.id}}, static_cast<double>(d.memory));
  MetricFamily drained(out, "sluice_device_drained", Type::kGauge,
                       "1 when it takes no more instances.");
  for (const Device& d : control.seen().devices) drained.add({{"device", d.id}}, d.drained);
  MetricFamily failing(out, "sluice_device_failing", Type::kGauge,
                       "1 when its node has drained it because it fails.");
  for (const Device& d : control.seen().devices)
    failing.add({{"device", d.id}}, d.fault.empty() ? 0 : 1);
  MetricFamily busy(out, "sluice_device_busy_ratio", Type::kGauge,
                    "Share of NVML's last period in which some kernel ran on the GPU.");
  for (const auto& [id, load] : control.seen().loads)
    busy.add({{"device", id}}, load.busy_percent / 100.0);
  MetricFamily used(out, "sluice_device_memory_used_bytes", Type::kGauge,
                    "Memory of the GPU that is in use, by whomever.");
  for (const auto& [id, load] : control.seen().loads)
    used.add({{"device", id}}, static_cast<double>(load.memory_used));
}

}  // namespace

std::string metrics(const Control& control) {
  std::string out;
  add_traffic(out, control);
  add_accounts(out, control);
  add_groups(out, control);
  add_instances(out, control);
  add_devices(out, control);
  return out;
}

}  // namespace sluice::control
