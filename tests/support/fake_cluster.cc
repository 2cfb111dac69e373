#include "tests/support/fake_cluster.h"

#include <algorithm>
#include <utility>

#include "wire/json/routing_json.h"

namespace sluice::control {
namespace {

const InstanceId& id_of(const ObservedInstance& o) {
  return o.instance.id;
}

}  // namespace

FakeCluster::FakeCluster(const Clock& clock) : clock_(clock) {
  for (const char* id : {"cpu0", "cpu1"})
    devices.push_back({.id = id, .millicores = 1000, .memory = 1 << 30, .price_per_hour = 3600});
  add_gateway("gateway");
}

void FakeCluster::add_gateway(const std::string& name) {
  seen.gateways.push_back({.name = name, .started = 1});
}

void FakeCluster::add_node(const std::string& name) {
  const Device device{.id = name + "/cpu0", .node = name, .millicores = 1000, .memory = 1 << 30};
  devices.insert(std::ranges::lower_bound(devices, device.id, {}, &Device::id), device);
}

void FakeCluster::remove_node(const std::string& name) {
  std::erase_if(devices, [&](const Device& d) { return d.node == name; });
  std::erase_if(seen.instances, [&](const ObservedInstance& o) { return o.node == name; });
}

void FakeCluster::answer() {
  answered_ = true;
  if (on_settled_) on_settled_();
}

Result<void> FakeCluster::reach(const DeviceId& device) const {
  const Device* d = control::find(devices, device);
  const std::string node = d == nullptr ? "" : d->node;
  if (answers(node)) return {};
  return Error{ErrorKind::kUnavailable, "the node daemon of " + node + " does not answer"};
}

Result<void> FakeCluster::reach(const ObservedInstance* o) const {
  return reach(o == nullptr ? "" : o->instance.device());
}

void FakeCluster::list_nodes() {
  seen.nodes.clear();
  std::map<std::string, Node> nodes;
  for (const Device& d : devices) nodes[d.node].devices.push_back(d.id);
  for (auto& [name, node] : nodes) {
    node.name = name;
    node.boot_id = boots_.contains(name) ? boots_.at(name) : "boot";
    node.reachable = answers(name);
    seen.nodes.push_back({.node = std::move(node), .seen = 1});
  }
}

ObservedInstance* FakeCluster::find(const InstanceId& id) {
  const auto found = std::ranges::lower_bound(seen.instances, id, {}, id_of);
  return found != seen.instances.end() && id_of(*found) == id ? &*found : nullptr;
}

void FakeCluster::adopt(const Instance& i) {
  const Device* device = control::find(devices, i.device());
  seen.instances.insert(std::ranges::lower_bound(seen.instances, i.id, {}, id_of),
                        {.instance = i,
                         .node = device == nullptr ? "" : device->node,
                         .address = "/" + i.id,
                         .pid = starts});
}

Observation FakeCluster::observe() {
  const Time now = clock_.now();
  if (seen_at_ != Time{}) serve(now - seen_at_);
  seen_at_ = now;
  take_effect();
  carry_on();
  hold();
  list_nodes();
  seen.devices = devices;
  for (Device& d : seen.devices) {
    if (drained_.contains(d.id)) d.drained = drained_[d.id];
    if (!faults.contains(d.id)) continue;
    d.drained = true;
    d.fault = faults[d.id];
  }
  ObservedGateway& first = seen.gateways.front();
  first.overdue.clear();
  for (const auto& [id, since] : hung_)
    if (const ObservedInstance* o = find(id); o != nullptr && alive(*o))
      first.overdue[id] = now - since;
  Observation answer = seen;
  std::erase_if(answer.devices, [&](const Device& d) { return !answers(d.node); });
  std::erase_if(answer.instances, [&](const ObservedInstance& o) { return !answers(o.node); });
  for (ObservedGateway& g : answer.gateways) {
    g.there = answered_ && gateway_there && !away.contains(g.name);
    if (!g.there) g = {.name = g.name};
  }
  return answer;
}

void FakeCluster::take_effect() {
  std::erase_if(accepted_, [&](const auto& start) {
    const auto& [due, instance] = start;
    if (clock_.now() < due) return false;
    if (find(instance.id) == nullptr && control::find(devices, instance.device()) != nullptr)
      adopt(instance);
    changed_[instance.id] = clock_.now();
    return true;
  });
}

// Instances start and drain as time passes; each is busy for as long as its quota allows.
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

void FakeCluster::serve(ObservedGateway& gateway, const FunctionName& f, uint64_t requests) {
  auto t = std::ranges::lower_bound(gateway.traffic, f, {}, &ObservedTraffic::function);
  if (t == gateway.traffic.end() || t->function != f)
    t = gateway.traffic.insert(t, ObservedTraffic{.function = f});
  t->requests += requests;
  if (malformed.contains(f)) {
    t->invalid += requests;
    return;
  }
  t->ok += requests;
  t->concurrency_seconds += 0.01 * static_cast<double>(requests);
  t->inferences += requests * (each.contains(f) ? each[f] : 1);
  for (uint64_t i = 0; i < requests; ++i) t->latency.add(Millis(10));
}

void FakeCluster::serve(Nanos elapsed) {
  const size_t gateways = seen.gateways.size();
  for (const auto& [function, rate] : load)
    for (size_t g = 0; g < gateways; ++g)
      serve(seen.gateways[g], function,
            static_cast<uint64_t>(rate * seconds(elapsed) / static_cast<double>(gateways)) +
                std::exchange(once[function], 0));
  for (ObservedInstance& o : seen.instances)
    if (o.instance.state == InstanceState::kReady && load.contains(o.instance.function))
      o.used += elapsed * o.instance.slice().quota.request.permille / 1000;
}

Result<void> FakeCluster::start(const StartOrder& order) {
  ++starts;
  const auto* fork = std::get_if<ForkOfTemplate>(&order.birth);
  last_model = fork != nullptr ? fork->model.path : "";
  SLUICE_TRY(reach(order.instance.device()));
  if (refuse_starts) return Error{ErrorKind::kInternal, "No space left on device"};
  if (lose_starts > 0) return --lose_starts, Result<void>();
  for (int times = repeat_starts ? 2 : 1; times > 0; --times)
    accepted_.emplace_back(clock_.now() + starts_take, order.instance);
  take_effect();
  return {};
}

Result<void> FakeCluster::resize(const InstanceId& id, const Parts& parts) {
  ++resizes;
  ObservedInstance* o = find(id);
  SLUICE_TRY(reach(o));
  if (lose_resizes > 0) return --lose_resizes, Result<void>();
  if (o == nullptr) return Error{ErrorKind::kNotFound, "there is no instance '" + id + "'"};
  if (!std::ranges::equal(parts, o->instance.parts, {}, &Part::device, &Part::device))
    return Error{ErrorKind::kInvalid, "parts: " + id + " keeps its devices"};
  o->instance.parts = parts;
  return {};
}

Result<void> FakeCluster::stop(const InstanceId& id, Nanos drain) {
  ++stops;
  last_drain = drain;
  ObservedInstance* o = find(id);
  SLUICE_TRY(reach(o));
  if (lose_stops > 0) return --lose_stops, Result<void>();
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
  SLUICE_TRY(reach(device));
  drained_[device] = drained;
  return {};
}

Result<std::set<InstanceId>> FakeCluster::set_routes(const std::string& gateway,
                                                     const RoutingTable& table) {
  const auto g = std::ranges::find(seen.gateways, gateway, &ObservedGateway::name);
  if (g == seen.gateways.end())
    return Error{ErrorKind::kNotFound, "there is no gateway '" + gateway + "'"};
  if (!gateway_there || away.contains(gateway))
    return Error{ErrorKind::kUnavailable, gateway + " does not answer"};
  ++tables;
  routes = wire::to_json(table);
  g->routes_version = table.version;
  hold();
  return g->busy;
}

void FakeCluster::hold() {
  std::set<InstanceId> busy;
  for (const ObservedInstance& o : seen.instances)
    if ((held.contains(o.instance.function) || hung_.contains(o.instance.id)) && alive(o))
      busy.insert(o.instance.id);
  for (ObservedGateway& g : seen.gateways) g.busy = busy;
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

void FakeCluster::end(const InstanceId& id) {
  ObservedInstance* o = find(id);
  if (o == nullptr) return;
  o->instance.state = InstanceState::kGone;
  o->error = "ended with 0";
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

void FakeCluster::reboot(const std::string& node) {
  std::erase_if(seen.instances, [&](const ObservedInstance& o) { return o.node == node; });
  boots_[node] += "again";
}

void FakeCluster::restart_gateway() {
  for (ObservedGateway& g : seen.gateways) {
    ++g.started;
    g.traffic.clear();
    g.routes_version = 0;
  }
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
