#include "control/cluster_local.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "wire/json.h"

namespace sluice::control {
namespace {

using nlohmann::json;
using wire::Fields;
using wire::http::verb;

constexpr int64_t kMost = INT64_MAX;

Result<ObservedInstance> instance_from(const json& j) {
  SLUICE_ASSIGN(instance, wire::instance_from(j));
  Fields f(j, "instance");
  ObservedInstance o{.instance = instance};
  o.foreign = f.boolean("foreign", false);
  o.socket = f.text("socket");
  o.pid = f.integer("pid", 0, 0, kMost);
  o.start_time = static_cast<uint64_t>(f.integer("start_time", 0, 0, kMost));
  o.ready_after_ms = f.integer("ready_after_ms", 0, 0, kMost);
  o.used = Nanos(f.integer("used_ns", 0, 0, kMost));
  o.outside = Nanos(f.integer("outside_ns", 0, 0, kMost));
  o.ungated = Nanos(f.integer("ungated_ns", 0, 0, kMost));
  o.peak_memory = f.integer("peak_memory", 0, 0, kMost);
  if (f.child("memory_held") != nullptr) o.memory_held = f.integer("memory_held", 0, 0, kMost);
  o.device_fault = f.text("device_fault");
  o.error = f.text("error");
  o.ended = f.integer("ended", 0, 0, kMost);
  o.stopped = f.boolean("stopped", false);
  o.node_fault = f.boolean("node_fault", false);
  return f.finish(o);
}

// A list's items, where they stand; none where there is no list.
const json& items(Fields& f, std::string_view key) {
  static const json kNone = json::array();
  const json* list = f.child(key);
  return list != nullptr && list->is_array() ? *list : kNone;
}

Histogram histogram_from(const json* j) {
  Histogram h;
  if (j == nullptr || !j->is_object()) return h;
  Fields f(*j, "histogram");
  h.restore_sum(Nanos(f.integer("sum_ns", 0, 0, kMost)));
  for (const json& bucket : items(f, "buckets"))
    if (bucket.is_array() && bucket.size() == 2 && bucket[0].is_number_integer() &&
        bucket[1].is_number_unsigned())
      h.restore(bucket[0].get<int>(), bucket[1].get<uint64_t>());
  return h;
}

Result<ObservedTraffic> traffic_from(const json& j) {
  Fields f(j, "traffic");
  const auto count = [&](const char* key) {
    return static_cast<uint64_t>(f.integer(key, 0, 0, kMost));
  };
  ObservedTraffic t{.function = function_name(f.text("name"))};
  t.requests = count("requests");
  t.ok = count("ok");
  t.invalid = count("invalid");
  t.shed = count("shed");
  t.failed = count("failed");
  t.timed_out = count("timed_out");
  t.gone = count("gone");
  t.late = count("late");
  t.cold_starts = count("cold_starts");
  t.retried = count("retried");
  t.inferences = count("inferences");
  t.queued = static_cast<int>(f.integer("queued", 0, 0, 1'000'000'000));
  t.in_flight = static_cast<int>(f.integer("in_flight", 0, 0, 1'000'000'000));
  t.concurrency_seconds = f.number("concurrency_ns", 0, 0, 1e300) / 1e9;
  t.latency = histogram_from(f.child("latency_us"));
  if (const json* gaps = f.child("gaps")) {
    Fields g(*gaps, "gaps");
    t.gaps = static_cast<uint64_t>(g.integer("n", 0, 0, kMost));
    t.gap_sum = g.number("sum", 0, 0, 1e300);
    t.gap_squares = g.number("sum2", 0, 0, 1e300);
  }
  return f.finish(t);
}

// Adds the function's instances that have an overdue request.
void add_overdue(const json& function, std::map<InstanceId, Nanos>& overdue) {
  Fields f(function, "traffic");
  for (const json& item : items(f, "instances")) {
    Fields i(item, "instance");
    const Micros since(i.integer("overdue_us", 0, 0, kMost / 1000));
    if (since > Micros(0)) overdue[i.text("id")] = since;
  }
}

std::set<InstanceId> busy_from(Fields& f) {
  std::set<InstanceId> busy;
  for (const json& id : f.list("busy"))
    if (id.is_string()) busy.insert(id.get<std::string>());
  return busy;
}

Result<void> done(const Result<json>& answer) {
  if (!answer.ok()) return answer.error();
  return {};
}

void observe_node(const json& state, Observation& o) {
  Fields f(state, "state");
  o.node_there = true;
  o.boot_id = f.text("boot_id");
  o.backstop = f.boolean("backstop", true);
  o.enforcement = f.text("enforcement");
  for (const json& item : items(f, "devices")) {
    const auto device = wire::device_from(item);
    if (!device.ok()) {
      log::warn("node: {}", device.error().message);
      continue;
    }
    o.devices.push_back(*device);
    if (!item.contains("busy_percent")) continue;
    Fields load(item, "device");
    o.loads[device->id] = {static_cast<int>(load.integer("busy_percent", 0, 0, 100)),
                           load.integer("memory_used", 0, 0, kMost)};
  }
  for (const json& item : items(f, "instances")) {
    const auto instance = instance_from(item);
    if (instance.ok())
      o.instances.push_back(*instance);
    else
      log::warn("node: {}", instance.error().message);
  }
  std::ranges::sort(o.devices, {}, &Device::id);
  std::ranges::sort(o.instances, {}, [](const ObservedInstance& i) { return i.instance.id; });
}

void observe_gateway(const json& stats, Observation& o) {
  Fields f(stats, "stats");
  o.gateway_there = true;
  o.gateway_started = f.integer("started", 0, 0, kMost);
  o.routes_version = f.integer("version", 0, 0, kMost);
  o.busy = busy_from(f);
  for (const json& item : items(f, "functions")) {
    const auto traffic = traffic_from(item);
    if (traffic.ok())
      o.traffic.push_back(*traffic);
    else
      log::warn("gateway: {}", traffic.error().message);
    add_overdue(item, o.overdue);
  }
}

}  // namespace

LocalCluster::LocalCluster(const std::string& node_socket, const std::string& gateway_socket,
                           std::function<void()> on_quiet, Nanos timeout)
    : node_(node_socket, timeout, on_quiet), gateway_(gateway_socket, timeout, on_quiet) {}

void LocalCluster::look() {
  node_.look("/v1/state");
  gateway_.look("/v1/stats?since=" + std::to_string(told_));
}

bool LocalCluster::settled() const {
  const auto now = Port::Clock::now();
  const auto busy = [&](const Port& port) {
    const auto since = port.busy_since();
    return since && now - *since < kAway;
  };
  return !busy(node_) && !busy(gateway_);
}

Observation LocalCluster::observe() {
  left_ = kOrdersWait;
  Observation o;
  if (const auto state = node_.take_look(); state && state->ok()) {
    observe_node(**state, o);
    node_seen_ = unix_now();
    backstop_ = o.backstop;
    enforcement_ = o.enforcement;
  }
  if (const auto stats = gateway_.take_look(); stats && stats->ok()) {
    const auto started = (*stats)->value("started", UnixMillis{0});
    // A restarted gateway counts from zero: request full statistics next.
    const bool whole = told_ == 0 || started == gateway_started_;
    told_ = whole ? (*stats)->value("told", int64_t{0}) : 0;
    gateway_started_ = started;
    gateway_seen_ = unix_now();
    if (whole) observe_gateway(**stats, o);
  }
  o.backstop = backstop_;
  o.enforcement = enforcement_;
  o.node_seen = node_seen_;
  o.gateway_seen = gateway_seen_;
  return o;
}

Result<json> LocalCluster::ask(Port& port, verb verb, std::string_view target, json body) {
  const auto begin = Port::Clock::now();
  auto answer = port.call(verb, target, std::move(body), begin + left_);
  left_ = std::max(left_ - Nanos(Port::Clock::now() - begin), Nanos(0));
  return answer;
}

Result<void> LocalCluster::start(const StartOrder& order) {
  const Instance& i = order.instance;
  return done(ask(node_, verb::post, "/v1/instances",
                  {{"id", i.id},
                   {"function", to_string(i.function)},
                   {"revision", i.revision},
                   {"device", i.device},
                   {"slice", wire::to_json(i.slice)},
                   {"position", wire::to_json(i.position)},
                   {"batch", i.batch},
                   {"model", wire::to_json(order.model)},
                   {"batching", wire::to_json(order.batching)}}));
}

Result<void> LocalCluster::resize(const InstanceId& id, const Slice& slice,
                                  const Position& position) {
  return done(ask(node_, verb::patch, "/v1/instances/" + id,
                  {{"slice", wire::to_json(slice)}, {"position", wire::to_json(position)}}));
}

Result<void> LocalCluster::stop(const InstanceId& id, Nanos drain) {
  return done(
      ask(node_, verb::delete_, "/v1/instances/" + id, {{"drain_ms", drain.count() / 1'000'000}}));
}

Result<void> LocalCluster::set_drained(const DeviceId& device, bool drained) {
  return done(ask(node_, verb::patch, "/v1/devices/" + device, {{"drained", drained}}));
}

Result<std::set<InstanceId>> LocalCluster::set_routes(const json& table) {
  SLUICE_ASSIGN(answer, ask(gateway_, verb::put, "/v1/routes", table));
  Fields f(answer, "answer");
  return busy_from(f);
}

}  // namespace sluice::control
