#include "control/cluster_fake.h"

#include <algorithm>
#include <utility>

namespace sluice::control {

ObservedInstance* FakeCluster::find(const InstanceId& id) {
  for (ObservedInstance& o : seen.instances)
    if (o.instance.id == id) return &o;
  return nullptr;
}

Observation FakeCluster::observe() {
  const Time now = clock_.now();
  if (seen_at_ != Time{}) serve(now - seen_at_);
  seen_at_ = now;
  carry_on();
  hold();
  seen.node_there = node_there;
  seen.gateway_there = gateway_there;
  seen.boot_id = "boot";
  seen.gateway_started = gateway_started_;
  seen.devices.clear();
  for (const char* id : {"cpu0", "cpu1"})
    seen.devices.push_back({.id = id,
                            .millicores = 1000,
                            .memory = 1 << 30,
                            .drained = drained_[id] || faults.contains(id),
                            .fault = faults.contains(id) ? faults[id] : "",
                            .price_per_hour = 3600});
  seen.overdue.clear();
  for (const auto& [id, since] : hung_)
    if (const ObservedInstance* o = find(id); o != nullptr && alive(*o))
      seen.overdue[id] = now - since;
  Observation answer = seen;
  if (!node_there) answer.instances.clear(), answer.devices.clear();
  if (!gateway_there) answer.traffic.clear(), answer.overdue.clear();
  return answer;
}

// Instances come up and drain as time goes by; each is busy for as long as its quota allows.
void FakeCluster::carry_on() {
  const Time now = clock_.now();
  for (ObservedInstance& o : seen.instances) {
    InstanceState& state = o.instance.state;
    const Nanos since = now - changed_[o.instance.id];
    if (state == InstanceState::kStarting && start_takes && since >= *start_takes) {
      const bool broken = broken_revisions.contains(o.instance.revision);
      state = broken ? InstanceState::kGone : InstanceState::kReady;
      if (broken) o.error = "the model has no method 'forward'";
      o.ready_after_ms = broken ? 0 : since.count() / 1'000'000;
    } else if (state == InstanceState::kDraining && drain_takes && since >= *drain_takes) {
      state = InstanceState::kGone;
    }
  }
}

void FakeCluster::serve(Nanos elapsed) {
  for (const auto& [function, rate] : load) {
    auto t = std::ranges::find(seen.traffic, function, &ObservedTraffic::function);
    if (t == seen.traffic.end()) t = seen.traffic.insert(t, ObservedTraffic{.function = function});
    const auto n =
        static_cast<uint64_t>(rate * seconds(elapsed)) + std::exchange(once[function], 0);
    t->requests += n;
    if (malformed.contains(function)) {
      t->invalid += n;
      continue;
    }
    t->ok += n;
    t->concurrency_seconds += 0.01 * static_cast<double>(n);
    t->inferences += n * (each.contains(function) ? each[function] : 1);
    for (uint64_t i = 0; i < n; ++i) t->latency.add(Millis(10));
  }
  for (ObservedInstance& o : seen.instances)
    if (o.instance.state == InstanceState::kReady && load.contains(o.instance.function))
      o.used += elapsed * o.instance.slice.quota.request.permille / 1000;
}

Result<void> FakeCluster::start(const StartOrder& order) {
  ++starts;
  last_model = order.model.path;
  if (!node_there) return Error{ErrorKind::kUnavailable, "the node daemon does not answer"};
  if (refuse_starts) return Error{ErrorKind::kInternal, "No space left on device"};
  if (lose_starts > 0) return --lose_starts, Result<void>();
  for (int times = repeat_starts ? 2 : 1; times > 0; --times)
    if (find(order.instance.id) == nullptr)
      seen.instances.push_back(
          {.instance = order.instance, .socket = "/" + order.instance.id, .pid = starts});
  changed_[order.instance.id] = clock_.now();
  std::ranges::sort(seen.instances, {}, [](const auto& o) { return o.instance.id; });
  return {};
}

Result<void> FakeCluster::resize(const InstanceId& id, const Slice& slice,
                                 const Position& position) {
  ++resizes;
  if (!node_there) return Error{ErrorKind::kUnavailable, "the node daemon does not answer"};
  if (lose_resizes > 0) return --lose_resizes, Result<void>();
  if (ObservedInstance* o = find(id)) o->instance.slice = slice, o->instance.position = position;
  return {};
}

Result<void> FakeCluster::stop(const InstanceId& id, Nanos drain) {
  ++stops;
  last_drain = drain;
  if (!node_there) return Error{ErrorKind::kUnavailable, "the node daemon does not answer"};
  if (lose_stops > 0) return --lose_stops, Result<void>();
  ObservedInstance* o = find(id);
  if (o == nullptr) return Error{ErrorKind::kNotFound, "there is no instance '" + id + "'"};
  if (o->instance.state == InstanceState::kGone) {
    std::erase_if(seen.instances, [&](const auto& other) { return other.instance.id == id; });
  } else if (o->instance.state != InstanceState::kDraining) {
    o->instance.state = InstanceState::kDraining;
    changed_[id] = clock_.now();
  }
  return {};
}

Result<void> FakeCluster::set_drained(const DeviceId& device, bool drained) {
  drained_[device] = drained;
  return {};
}

Result<std::set<InstanceId>> FakeCluster::set_routes(const nlohmann::json& table) {
  if (!gateway_there) return Error{ErrorKind::kUnavailable, "the gateway does not answer"};
  ++tables;
  routes = table;
  seen.routes_version = table["version"];
  hold();
  return seen.busy;
}

void FakeCluster::hold() {
  seen.busy.clear();
  for (const ObservedInstance& o : seen.instances)
    if ((held.contains(o.instance.function) || hung_.contains(o.instance.id)) && alive(o))
      seen.busy.insert(o.instance.id);
}

void FakeCluster::hang(const FunctionName& f) {
  for (const ObservedInstance& o : seen.instances)
    if (o.instance.function == f && o.instance.state == InstanceState::kReady)
      hung_.emplace(o.instance.id, clock_.now());
}

void FakeCluster::kill(const FunctionName& f) {
  for (ObservedInstance& o : seen.instances)
    if (o.instance.function == f && o.instance.state == InstanceState::kReady) {
      o.instance.state = InstanceState::kGone;
      o.error = "killed by signal 9";
      return;
    }
}

void FakeCluster::restart_node() {
  for (ObservedInstance& o : seen.instances)
    if (o.instance.state == InstanceState::kStarting) {
      o.instance.state = InstanceState::kGone;
      o.error = "the node daemon was restarted while it started";
      o.node_fault = true;
    }
}

void FakeCluster::down() {
  for (ObservedInstance& o : seen.instances) {
    o.instance.state = InstanceState::kGone;
    o.error = "ended with 0";
    o.stopped = true;
  }
}

void FakeCluster::restart_gateway() {
  ++gateway_started_;
  seen.traffic.clear();
  seen.routes_version = 0;
  routes = {{"functions", nlohmann::json::array()}};
}

void FakeCluster::all(InstanceState from, InstanceState to) {
  for (ObservedInstance& o : seen.instances)
    if (o.instance.state == from) o.instance.state = to;
}

int FakeCluster::count(int revision, InstanceState state) const {
  return static_cast<int>(std::ranges::count_if(seen.instances, [&](const auto& o) {
    return o.instance.revision == revision && o.instance.state == state;
  }));
}

}  // namespace sluice::control
