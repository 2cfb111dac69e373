#include "control/metrics.h"

#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>
#include <vector>

namespace sluice::control {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

constexpr double kLatencyBounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                     0.25,  0.5,    1,     2.5,  5,     10,   30};

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return (std::ostringstream() << std::setprecision(15) << value).str();
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

// One family: its head, then its samples.
class Family {
 public:
  Family(std::ostringstream& out, std::string name, std::string_view type, std::string_view help)
      : out_(out), name_(std::move(name)) {
    out_ << "# HELP " << name_ << " " << help << "\n# TYPE " << name_ << " " << type << "\n";
  }
  void add(const Labels& labels, double value, std::string_view suffix = "") {
    out_ << name_ << suffix << "{";
    const char* comma = "";
    for (const auto& [key, text] : labels) {
      out_ << comma << key << "=\"" << escaped(text) << "\"";
      comma = ",";
    }
    out_ << "} " << number(value) << "\n";
  }

 private:
  std::ostringstream& out_;
  const std::string name_;
};

Labels of(const FunctionName& f) {
  return {{"namespace", f.space}, {"function", f.name}};
}

Labels with(Labels labels, std::string_view key, std::string text) {
  labels.emplace_back(key, std::move(text));
  return labels;
}

// What each function is: its traffic since it was made.
void add_traffic(std::ostringstream& out, const Control& control) {
  const auto family = [&](const char* name, const char* type, const char* help, auto value) {
    Family f(out, name, type, help);
    for (const auto& [function, r] : control.functions())
      f.add(of(function), static_cast<double>(value(r)));
  };
  using R = Control::Runtime;
  family("sluice_requests_total", "counter", "Requests that named the function.",
         [](const R& r) { return r.traffic.totals().requests; });
  family("sluice_inferences_total", "counter", "Inferences of answered requests.",
         [](const R& r) { return r.traffic.totals().inferences; });
  family("sluice_cold_starts_total", "counter", "Requests that waited for an instance to start.",
         [](const R& r) { return r.traffic.totals().cold_starts; });
  family("sluice_retries_total", "counter", "Requests sent again because an instance died.",
         [](const R& r) { return r.traffic.totals().retried; });
  family("sluice_requests_waiting", "gauge", "Requests that wait for an instance.",
         [](const R& r) { return r.traffic.queued(); });
  family("sluice_requests_in_flight", "gauge", "Requests at an instance.",
         [](const R& r) { return r.traffic.in_flight(); });
  family("sluice_forecast_rate", "gauge",
         "Inferences per second that the function is made ready for.",
         [](const R& r) { return r.forecast.expected; });

  Family ended(out, "sluice_requests_ended_total", "counter", "Requests by how they ended.");
  for (const auto& [function, r] : control.functions()) {
    const TrafficTotals& t = r.traffic.totals();
    ended.add(with(of(function), "outcome", "ok"), static_cast<double>(t.ok));
    ended.add(with(of(function), "outcome", "shed"), static_cast<double>(t.shed));
    ended.add(with(of(function), "outcome", "failed"), static_cast<double>(t.failed));
  }
  Family violations(out, "sluice_slo_violations_total", "counter",
                    "Requests that were late, shed or failed.");
  for (const auto& [function, r] : control.functions()) {
    const TrafficTotals& t = r.traffic.totals();
    violations.add(with(of(function), "kind", "late"), static_cast<double>(t.late));
    violations.add(with(of(function), "kind", "shed"), static_cast<double>(t.shed));
    violations.add(with(of(function), "kind", "failed"), static_cast<double>(t.failed));
  }
  Family duration(out, "sluice_request_duration_seconds", "histogram",
                  "Arrival to the last byte of the answer.");
  for (const auto& [function, r] : control.functions()) {
    const Histogram& h = r.traffic.totals().latency;
    for (const double bound : kLatencyBounds)
      duration.add(with(of(function), "le", number(bound)),
                   static_cast<double>(h.at_most(from_seconds(bound))), "_bucket");
    duration.add(with(of(function), "le", "+Inf"), static_cast<double>(h.count()), "_bucket");
    duration.add(of(function), seconds(h.sum()), "_sum");
    duration.add(of(function), static_cast<double>(h.count()), "_count");
  }
}

// What each function held, used and cost.
void add_accounts(std::ostringstream& out, const Control& control) {
  const auto family = [&](const char* name, const char* type, const char* help, auto value) {
    Family f(out, name, type, help);
    for (const auto& [function, r] : control.functions()) {
      const auto found = control.accounting().all().find(function);
      const Account a = found == control.accounting().all().end() ? Account{} : found->second;
      f.add(of(function), static_cast<double>(value(a, r)));
    }
  };
  using A = Account;
  using R = Control::Runtime;
  family("sluice_slice_seconds_total", "counter", "Device-seconds reserved.",
         [](const A& a, const R&) { return a.slice_seconds; });
  family("sluice_used_seconds_total", "counter", "Device-seconds used.",
         [](const A& a, const R&) { return a.used_seconds; });
  family("sluice_cost_total", "counter", "Cost, in the unit of the devices' prices.",
         [](const A& a, const R&) { return a.cost; });
  family("sluice_cost_per_thousand_requests", "gauge", "Cost per 1,000 answered requests.",
         [](const A& a, const R& r) { return a.per_thousand(r.traffic.totals().ok); });
  family("sluice_resizes_total", "counter", "Slices changed at run time.",
         [](const A& a, const R&) { return a.resizes; });
  family("sluice_starts_total", "counter", "Instances started.",
         [](const A& a, const R&) { return a.starts; });
  family("sluice_stops_total", "counter", "Instances stopped.",
         [](const A& a, const R&) { return a.stops; });
}

void add_instances(std::ostringstream& out, const Control& control) {
  const auto count = [&](const FunctionName& f, InstanceState state) {
    double n = 0;
    for (const ObservedInstance& o : control.seen().instances)
      n += ours(o) && o.instance.function == f && o.instance.state == state;
    return n;
  };
  Family ready(out, "sluice_instances_ready", "gauge", "Instances that serve.");
  for (const auto& [f, r] : control.functions()) ready.add(of(f), count(f, InstanceState::kReady));
  Family starting(out, "sluice_instances_starting", "gauge", "Instances that start.");
  for (const auto& [f, r] : control.functions())
    starting.add(of(f), count(f, InstanceState::kStarting));

  const auto family = [&](const char* name, const char* type, const char* help, auto value) {
    Family f(out, name, type, help);
    for (const ObservedInstance& o : control.seen().instances) {
      if (!alive(o)) continue;
      const Instance& i = o.instance;
      f.add(
          with(with(with(of(i.function), "revision", std::to_string(i.revision)), "instance", i.id),
               "device", i.device),
          static_cast<double>(value(o)));
    }
  };
  using O = ObservedInstance;
  family("sluice_instance_sm_ratio", "gauge", "Share of the device's cores that is held.",
         [](const O& o) { return o.instance.slice.sm.fraction(); });
  family("sluice_instance_request_ratio", "gauge", "Share of time that is reserved.",
         [](const O& o) { return o.instance.slice.quota.request.fraction(); });
  family("sluice_instance_limit_ratio", "gauge", "Share of time that may be used at most.",
         [](const O& o) { return o.instance.slice.quota.limit.fraction(); });
  family("sluice_instance_used_seconds_total", "counter", "Busy time at its own share of cores.",
         [](const O& o) { return seconds(o.used); });
  family("sluice_instance_peak_memory_bytes", "gauge", "The most memory it had.",
         [](const O& o) { return o.peak_memory; });
}

void add_devices(std::ostringstream& out, const Control& control) {
  Family reserved(out, "sluice_device_reserved_ratio", "gauge",
                  "Share of the device, in cores and time, that is promised.");
  for (const Device& d : control.seen().devices) {
    double sum = 0;
    for (const ObservedInstance& o : control.seen().instances)
      if (alive(o) && o.instance.device == d.id)
        sum += o.instance.slice.sm.fraction() * o.instance.slice.quota.request.fraction();
    reserved.add({{"device", d.id}}, sum);
  }
  Family memory(out, "sluice_device_memory_bytes", "gauge", "Memory of the device.");
  for (const Device& d : control.seen().devices)
    memory.add({{"device", d.id}}, static_cast<double>(d.memory));
  Family drained(out, "sluice_device_drained", "gauge", "1 when it takes no more instances.");
  for (const Device& d : control.seen().devices) drained.add({{"device", d.id}}, d.drained);
}

}  // namespace

std::string metrics(const Control& control) {
  std::ostringstream out;
  add_traffic(out, control);
  add_accounts(out, control);
  add_instances(out, control);
  add_devices(out, control);
  return out.str();
}

}  // namespace sluice::control
