#include "control/local/cluster_local.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "wire/json/birth_json.h"
#include "wire/json/json.h"
#include "wire/json/routing_json.h"

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
  o.address = f.text("socket");
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

// Returns a list's items in place; none if there is no list.
const json& items(Fields& f, std::string_view key) {
  static const json kNone = json::array();
  const json* list = f.child(key);
  return list != nullptr && list->is_array() ? *list : kNone;
}

// Fills in a histogram's buckets, as they travel.
void restore_buckets(auto& histogram, Fields& f) {
  for (const json& bucket : items(f, "buckets"))
    if (bucket.is_array() && bucket.size() == 2 && bucket[0].is_number_integer() &&
        bucket[1].is_number_unsigned())
      histogram.restore(bucket[0].get<int>(), bucket[1].get<uint64_t>());
}

Histogram histogram_from(const json* j) {
  Histogram h;
  if (j == nullptr || !j->is_object()) return h;
  Fields f(*j, "histogram");
  h.restore_sum(Nanos(f.integer("sum_ns", 0, 0, kMost)));
  restore_buckets(h, f);
  return h;
}

SizeHistogram sizes_from(const json* j) {
  SizeHistogram h;
  if (j == nullptr || !j->is_object()) return h;
  Fields f(*j, "sizes");
  h.restore_sum(static_cast<uint64_t>(f.integer("sum", 0, 0, kMost)));
  restore_buckets(h, f);
  return h;
}

// Returns nothing if it has no answer.
std::shared_ptr<const AnswerSpread> spread_from(Fields& instance) {
  const json* latency = instance.child("latency_us");
  if (latency == nullptr) return nullptr;
  return std::make_shared<AnswerSpread>(
      AnswerSpread{histogram_from(latency), sizes_from(instance.child("body_bytes"))});
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
  t.repeated = count("repeated");
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

// Returns the function's instances, by id; adds those that have an overdue request.
std::vector<ObservedAnswers> answers_from(const json& function,
                                          std::map<InstanceId, Nanos>& overdue) {
  Fields f(function, "traffic");
  std::vector<ObservedAnswers> out;
  for (const json& item : items(f, "instances")) {
    Fields i(item, "instance");
    const auto number = [&](const char* key) { return i.integer(key, 0, 0, kMost / 1000); };
    ObservedAnswers& a = out.emplace_back();
    a.instance = i.text("id");
    a.in_flight = static_cast<int>(i.integer("in_flight", 0, 0, 1'000'000'000));
    a.answered = static_cast<uint64_t>(number("answered"));
    a.inferences = static_cast<uint64_t>(number("inferences"));
    a.late = static_cast<uint64_t>(number("late"));
    a.slow = static_cast<uint64_t>(number("slow"));
    a.spread = spread_from(i);
    a.answering = Micros(number("busy_us"));
    const Micros since(number("overdue_us"));
    if (since > Micros(0)) overdue[a.instance] = since;
  }
  std::ranges::sort(out, {}, &ObservedAnswers::instance);
  return out;
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

LinkTier tier_of(const DeviceLink& l) {
  return l.nvlinks > 0 ? LinkTier::kNvlink : LinkTier::kPcie;
}

// Returns the node that the daemon reports, without the bandwidth of links.
// REQUIRES: `devices` is sorted.
Node node_of(const std::vector<Device>& devices, std::string boot_id) {
  Node n{.name = devices.empty() ? "" : devices.front().node, .boot_id = std::move(boot_id)};
  for (const Device& d : devices) {
    n.devices.push_back(d.id);
    for (const DeviceLink& l : d.links) n.links.push_back({d.id, l.to, tier_of(l)});
  }
  return n;
}

ObservedNode observe_node(const json& state, Observation& o) {
  Fields f(state, "state");
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
  std::ranges::sort(o.devices, {}, &Device::id);
  ObservedNode n{.node = node_of(o.devices, f.text("boot_id")), .seen = unix_now()};
  n.backstop = f.boolean("backstop", true);
  n.enforcement = f.text("enforcement");
  for (const json& item : items(f, "instances")) {
    auto instance = instance_from(item);
    if (instance.ok()) {
      instance->node = n.node.name;
      o.instances.push_back(std::move(*instance));
    } else {
      log::warn("node: {}", instance.error().message);
    }
  }
  std::ranges::sort(o.instances, {}, [](const ObservedInstance& i) { return i.instance.id; });
  return n;
}

void observe_gateway(const json& stats, ObservedGateway& g) {
  Fields f(stats, "stats");
  g.there = true;
  g.started = f.integer("started", 0, 0, kMost);
  g.routes_version = f.integer("version", 0, 0, kMost);
  g.busy = busy_from(f);
  for (const json& item : items(f, "functions")) {
    std::vector<ObservedAnswers> answers = answers_from(item, g.overdue);
    auto traffic = traffic_from(item);
    if (traffic.ok()) {
      traffic->instances = std::move(answers);
      g.traffic.push_back(std::move(*traffic));
    } else {
      log::warn("gateway: {}", traffic.error().message);
    }
  }
}

}  // namespace

LocalCluster::LocalCluster(const std::string& node_socket, const std::string& gateway_socket,
                           Nanos timeout)
    : node_(node_socket, timeout, [this] { quiet(); }),
      gateway_(gateway_socket, timeout, [this] { quiet(); }) {}

void LocalCluster::poll() {
  node_.poll("/v1/state");
  gateway_.poll("/v1/stats?since=" + std::to_string(told_));
}

void LocalCluster::on_settled(std::function<void()> call) {
  const std::lock_guard lock(settling_);
  on_settled_ = std::move(call);
}

void LocalCluster::quiet() {
  const std::lock_guard lock(settling_);
  if (on_settled_) on_settled_();
}

bool LocalCluster::settled() const {
  const auto now = PeerCalls::Clock::now();
  const auto busy = [&](const PeerCalls& peer) {
    const auto since = peer.busy_since();
    return since && now - *since < kAway;
  };
  return !busy(node_) && !busy(gateway_);
}

Observation LocalCluster::observe() {
  left_ = kOrdersWait;
  Observation o;
  seen_.node.reachable = false;
  if (const auto state = node_.take_poll(); state && state->ok()) seen_ = observe_node(**state, o);
  if (seen_.seen > 0) o.nodes.push_back(seen_);
  for (const auto& [id, counts] : pages_.latest())
    if (ObservedInstance* instance = find_instance(o.instances, id)) instance->program = counts;
  ObservedGateway& gateway = o.gateways.emplace_back(ObservedGateway{.name = kGateway});
  if (const auto stats = gateway_.take_poll(); stats && stats->ok()) {
    const auto started = (*stats)->value("started", UnixMillis{0});
    // A restarted gateway counts from zero: request full statistics next.
    const bool whole = told_ == 0 || started == gateway_started_;
    told_ = whole ? (*stats)->value("told", int64_t{0}) : 0;
    gateway_started_ = started;
    gateway_seen_ = unix_now();
    if (whole) observe_gateway(**stats, gateway);
  }
  gateway.seen = gateway_seen_;
  return o;
}

Result<json> LocalCluster::ask(PeerCalls& peer, verb verb, std::string_view target, json body) {
  const auto begin = PeerCalls::Clock::now();
  auto answer = peer.call(verb, target, std::move(body), begin + left_);
  left_ = std::max(left_ - Nanos(PeerCalls::Clock::now() - begin), Nanos(0));
  return answer;
}

namespace {
// A part alone in the form that older node daemons read as well.
json body_of(const Parts& parts) {
  if (parts.size() == 1) return wire::to_json(parts.front());
  json all = json::array();
  for (const Part& part : parts) all.push_back(wire::to_json(part));
  return {{"parts", std::move(all)}};
}
}  // namespace

Result<void> LocalCluster::start(const StartOrder& order) {
  const Instance& i = order.instance;
  json body = body_of(i.parts);
  body.update({{"id", i.id},
               {"function", to_string(i.function)},
               {"revision", i.revision},
               {"batch", i.batch},
               {"arbiter", i.arbiter}});
  body.update(wire::to_json(order.birth));
  return done(ask(node_, verb::post, "/v1/instances", body));
}

Result<void> LocalCluster::resize(const InstanceId& id, const Parts& parts) {
  return done(ask(node_, verb::patch, "/v1/instances/" + id, body_of(parts)));
}

Result<void> LocalCluster::stop(const InstanceId& id, Nanos drain) {
  return done(
      ask(node_, verb::delete_, "/v1/instances/" + id, {{"drain_ms", drain.count() / 1'000'000}}));
}

Result<void> LocalCluster::set_drained(const DeviceId& device, bool drained) {
  return done(ask(node_, verb::patch, "/v1/devices/" + device, {{"drained", drained}}));
}

// Sends only changes, if the gateway took a table before. It refuses a change if it has another
// table (kConflict: it was restarted), or supports no changes (kNotFound: it is of an older
// version).
Result<std::set<InstanceId>> LocalCluster::set_routes(const std::string& gateway,
                                                      const RoutingTable& table) {
  if (gateway != kGateway)
    return Error{ErrorKind::kNotFound, "there is no gateway '" + gateway + "'"};
  const RoutingTable before = std::exchange(routes_, {});
  Result<json> answer = Error{ErrorKind::kNotFound, "no table to change"};
  if (before.version > 0)
    answer = ask(gateway_, verb::patch, "/v1/routes", wire::to_json(change_between(before, table)));
  if (!answer.ok() &&
      (answer.error().kind == ErrorKind::kConflict || answer.error().kind == ErrorKind::kNotFound))
    answer = ask(gateway_, verb::put, "/v1/routes", wire::to_json(table));
  if (!answer.ok()) return answer.error();
  routes_ = table;
  Fields f(*answer, "answer");
  return busy_from(f);
}

}  // namespace sluice::control
