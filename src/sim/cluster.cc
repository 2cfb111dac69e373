#include "sim/cluster.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "policy/loans.h"

namespace sluice::sim {

using control::Observation;
using control::ObservedInstance;
using policy::ClientId;

SimulatedCluster::SimulatedCluster(ClusterPlan plan, const Predictor& predictor,
                                   const ManualClock& clock, EventQueue& events,
                                   std::function<void(const Answer&)> answered)
    : plan_(std::move(plan)),
      predictor_(predictor),
      clock_(clock),
      events_(events),
      random_(plan_.seed),
      door_([this](Request& r, Time) { return hand_over(r); }, std::move(answered), plan_.refused) {
  std::map<std::string, std::vector<Device>> by_node;
  for (const DevicePlan& d : plan_.devices) {
    by_node[d.device.node].push_back(d.device);
    machines_.emplace(
        d.device.id,
        Machine{.plan = d, .device = make_device(plan_.stepping, d.physics), .clients = {}});
  }
  for (auto& [name, devices] : by_node)
    nodes_.emplace(name, NodeState{.ledger = node::Ledger(std::move(devices)), .machines = {}});
  for (auto& [id, machine] : machines_) {
    machine.node = &nodes_.at(machine.plan.device.node);
    machine.node->machines.push_back(&machine);
  }
}

// ---- what the loop sees ------------------------------------------------------------------------

Observation SimulatedCluster::observe() {
  const Time now = clock_.now();
  Observation o;
  o.nodes.reserve(nodes_.size());
  o.devices.reserve(machines_.size());
  for (const auto& [name, node] : nodes_) {
    control::ObservedNode n{.node = {.name = name, .boot_id = "boot", .reachable = reachable(name)},
                            .seen = 1};
    if (const auto home = plan_.virtual_clusters.find(name); home != plan_.virtual_clusters.end())
      n.node.labels.emplace(policy::kVirtualCluster, home->second);
    n.node.devices.reserve(node.ledger.devices().size());
    for (const Device& d : node.ledger.devices()) {
      n.node.devices.push_back(d.id);
      if (n.node.reachable) o.devices.push_back(d);
    }
    o.nodes.push_back(std::move(n));
  }
  if (!std::ranges::is_sorted(o.devices, {}, &Device::id))
    std::ranges::sort(o.devices, {}, &Device::id);
  o.instances.reserve(servers_.size());
  for (auto& [id, server] : servers_) {
    if (!reachable(server.seen.node)) continue;
    if (alive(server.seen)) server.seen.used = server.machine->device->used(server.client, now);
    o.instances.push_back(server.seen);
  }
  if (reachable(kGateway))
    o.gateways.push_back(door_.observe(now));
  else
    o.gateways.push_back({.name = std::string(kGateway)});
  return o;
}

SimulatedCluster::Server* SimulatedCluster::find(const InstanceId& id) {
  const auto found = servers_.find(id);
  return found == servers_.end() ? nullptr : &found->second;
}

Result<SimulatedCluster::Machine*> SimulatedCluster::machine_of(const DeviceId& device) {
  const auto found = machines_.find(device);
  if (found == machines_.end())
    return Error{ErrorKind::kInvalid, "there is no device '" + device + "'"};
  return &found->second;
}

// ---- the loop's orders -------------------------------------------------------------------------

// Gives an order to a node, as its faults have it.
Result<void> SimulatedCluster::deliver(std::string node,
                                       const std::function<Result<void>()>& order) {
  using Kind = Fault::Kind;
  if (faults_.empty()) return order();
  if (!reachable(node))
    return Error{ErrorKind::kUnavailable, "the node daemon of " + node + " does not answer"};
  if (faults_.any(Kind::kLoseOrders, node)) return {};
  if (const Nanos late = faults_.by(Kind::kDelayOrders, node); late > Nanos(0)) {
    events_.at(clock_.now() + late, [order] { (void)order(); });
    return {};
  }
  Result<void> done = order();
  if (faults_.any(Kind::kLoseAnswers, node))
    return Error{ErrorKind::kTimeout, "the node daemon of " + node + " did not answer in time"};
  return done;
}

Result<void> SimulatedCluster::start(const control::StartOrder& order) {
  SLUICE_ASSIGN(machine, machine_of(order.instance.device()));
  return deliver(machine->plan.device.node, [this, order] { return start_now(order); });
}

Result<void> SimulatedCluster::start_now(const control::StartOrder& order) {
  const Instance& wanted = order.instance;
  SLUICE_ASSIGN(machine, machine_of(wanted.device()));
  if (servers_.contains(wanted.id)) return {};
  if (wanted.parts.size() > 1)
    return Error{ErrorKind::kInvalid, "an instance of several parts is not simulated"};
  const auto* program = std::get_if<ExecOfProgram>(&order.birth);
  if (program != nullptr && programs_ == nullptr)
    return Error{ErrorKind::kInvalid, "programs are not simulated"};
  Server server;
  server.is_worker = program != nullptr;
  server.machine = machine;
  server.node = machine->node;
  server.seen = {.instance = wanted, .node = machine->plan.device.node};
  server.seen.pid = ++starts_;
  server.seen.address = "/" + std::to_string(starts_);  // short, as it is copied at every tick
  server.seen.start_time = 1;
  const auto* fork = std::get_if<ForkOfTemplate>(&order.birth);
  server.batcher.emplace(
      Batching{wanted.batch, fork != nullptr ? fork->batching.max_delay : Nanos(0)});
  server.asked = clock_.now();
  SLUICE_TRY(place(server));
  const Nanos takes = plan_.cold_starts[random_.below(plan_.cold_starts.size())];
  const double times = faults_.times(Fault::Kind::kSlowStarts, server.seen.node);
  const Server& placed = servers_.emplace(wanted.id, std::move(server)).first->second;
  if (placed.is_worker) programs_->started(placed.seen.instance, placed.seen.node);
  events_.at(clock_.now() + std::chrono::round<Micros>(times * takes),
             [this, id = wanted.id] { become_ready(id); });
  return {};
}

// Reserves its slice, and admits it to its device.
Result<void> SimulatedCluster::place(Server& server) {
  Instance& i = server.seen.instance;
  Machine& machine = *server.machine;
  node::Ledger& ledger = machine.node->ledger;
  SLUICE_ASSIGN(promise, ledger.reserve(i.id, {{i.device(), i.slice(), i.position()}}, i.arbiter));
  i.parts = promise.parts;
  i.arbiter = promise.arbiter;
  Result<void> outcome;
  const DeviceKind kind = machine.plan.physics.gpu ? DeviceKind::kCuda : DeviceKind::kCpu;
  if (machine.device->empty()) outcome = machine.device->run(policy::arbiter_on(kind, i.arbiter));
  server.client = ++machine.last_client;
  if (outcome.ok())
    outcome = machine.device->admit({.id = server.client,
                                     .sm = i.slice().sm,
                                     .quota = i.slice().quota,
                                     .position = i.position(),
                                     .has_slo = !server.is_worker},
                                    clock_.now());
  if (!outcome.ok()) {
    ledger.release(i.id);
    return outcome;
  }
  machine.device->set_host(server.client, truth_of(i.function).host);
  count(server, 1);
  machine.clients[server.client] = i.id;
  schedule(machine);
  return {};
}

Result<void> SimulatedCluster::resize(const InstanceId& id, const Parts& parts) {
  const Server* server = find(id);
  if (server == nullptr) return Error{ErrorKind::kNotFound, "there is no instance '" + id + "'"};
  return deliver(server->seen.node, [this, id, to = parts.front()] { return resize_now(id, to); });
}

// Counts what it holds, or no longer does (by = -1). Of a device's instances the first counts the
// device, which so has to be asked before it joins or after it has left.
void SimulatedCluster::count(const Server& server, int by) {
  const Slice& slice = server.seen.instance.slice();
  use_.instances += by;
  use_.area += by * area(slice);
  use_.memory += by * slice.memory;
  server.node->changed = true;
  if (!server.machine->clients.empty()) return;
  use_.devices += by;
  use_.memory_there += by * server.machine->plan.device.memory;
}

Result<void> SimulatedCluster::resize_now(const InstanceId& id, const Part& to) {
  Server* server = find(id);
  if (server == nullptr || !alive(server->seen))
    return Error{ErrorKind::kNotFound, "there is no instance '" + id + "'"};
  Instance& i = server->seen.instance;
  Machine& machine = *server->machine;
  SLUICE_ASSIGN(promise, machine.node->ledger.change(id, {{i.device(), to.slice, to.position}}));
  SLUICE_TRY(machine.device->admit({.id = server->client,
                                    .sm = to.slice.sm,
                                    .quota = to.slice.quota,
                                    .position = promise.parts.front().position,
                                    .has_slo = !server->is_worker},
                                   clock_.now()));
  count(*server, -1);
  i.parts = promise.parts;
  count(*server, 1);
  schedule(machine);
  return {};
}

Result<void> SimulatedCluster::stop(const InstanceId& id, Nanos drain) {
  const Server* server = find(id);
  if (server == nullptr) return Error{ErrorKind::kNotFound, "there is no instance '" + id + "'"};
  return deliver(server->seen.node, [this, id, drain] { return stop_now(id, drain); });
}

Result<void> SimulatedCluster::stop_now(const InstanceId& id, Nanos drain) {
  Server* server = find(id);
  if (server == nullptr) return {};
  if (!alive(server->seen))
    servers_.erase(id);
  else if (server->seen.instance.state != InstanceState::kDraining)
    begin_drain(*server, drain);
  return {};
}

void SimulatedCluster::begin_drain(Server& server, Nanos drain) {
  server.seen.instance.state = InstanceState::kDraining;
  events_.at(clock_.now() + drain, [this, id = server.seen.instance.id] {
    Server* late = find(id);
    if (late != nullptr && alive(late->seen)) end(*late, "it did not finish in time", true);
  });
  if (server.is_worker) return programs_->asked_to_end(server.seen.instance.id);
  settle_drain(server);
}

void SimulatedCluster::settle_drain(Server& server) {
  if (server.seen.instance.state == InstanceState::kDraining && server.idle())
    end(server, "", true);
}

// ---- training workers --------------------------------------------------------------------------

void SimulatedCluster::compute(const InstanceId& worker, Nanos work) {
  const Server* server = find(worker);
  if (server == nullptr || !alive(server->seen)) return;
  Machine& machine = *server->machine;
  machine.device->begin(server->client, work, 1, Time::max(), clock_.now());
  schedule(machine);
}

void SimulatedCluster::end_worker(const InstanceId& worker) {
  Server* server = find(worker);
  if (server == nullptr || !alive(server->seen)) return;
  end(*server, "", server->seen.instance.state == InstanceState::kDraining);
}

Result<void> SimulatedCluster::set_drained(const DeviceId& device, bool drained) {
  SLUICE_ASSIGN(machine, machine_of(device));
  return deliver(machine->plan.device.node, [device, drained, node = machine->node] {
    return node->ledger.set_drained(device, drained);
  });
}

Result<std::set<InstanceId>> SimulatedCluster::set_routes(const std::string&,
                                                          const RoutingTable& table) {
  if (!door_.alive() || !reachable(kGateway))
    return Error{ErrorKind::kUnavailable, "the gateway does not answer"};
  return door_.set_routes(table, clock_.now());
}

// ---- instances ---------------------------------------------------------------------------------

void SimulatedCluster::become_ready(const InstanceId& id) {
  Server* server = find(id);
  if (server == nullptr || server->seen.instance.state != InstanceState::kStarting) return;
  server->seen.instance.state = InstanceState::kReady;
  server->seen.ready_after_ms = (clock_.now() - server->asked) / Millis(1);
  if (server->is_worker) programs_->ready(id);
}

// Its process ends, and the slice is free. Returns the requests that it had.
std::vector<SimulatedCluster::Server::Item> SimulatedCluster::take_down(Server& server,
                                                                        const std::string& error,
                                                                        bool stopped) {
  ObservedInstance& seen = server.seen;
  Machine& machine = *server.machine;
  seen.used = machine.device->used(server.client, clock_.now());
  seen.instance.state = InstanceState::kGone;
  seen.error = error;
  seen.stopped = stopped;
  seen.ended = 1;
  machine.device->remove(server.client, clock_.now());
  machine.clients.erase(server.client);
  server.node->ledger.release(seen.instance.id);
  count(server, -1);
  busy_before_ += seconds(seen.used) * seen.instance.slice().sm.fraction();
  if (server.is_worker) programs_->gone(seen.instance.id);
  schedule(machine);
  std::vector<Server::Item> lost = std::exchange(server.running, {});
  for (const auto& [number, item] : std::exchange(server.waiting, {})) lost.push_back(item);
  server.batcher.emplace(Batching{});
  return lost;
}

// They go to other instances.
void SimulatedCluster::hand_back(const std::vector<Server::Item>& lost) {
  for (const Server::Item& item : lost)
    if (!item.request->ended && item.request->number == item.number)
      door_.broke(*item.request, clock_.now());
}

void SimulatedCluster::end(Server& server, const std::string& error, bool stopped) {
  hand_back(take_down(server, error, stopped));
}

void SimulatedCluster::arrive(const FunctionName& f, int inferences) {
  door_.arrive(f, inferences, clock_.now());
}

bool SimulatedCluster::hand_over(Request& request) {
  const Server* server = find(request.at);
  if (server == nullptr || !alive(server->seen)) return false;
  if (plan_.hop == Nanos(0)) {
    reach(request.at, &request, request.number, request.more());
  } else {
    events_.at(clock_.now() + plan_.hop,
               [this, id = request.at, r = &request, number = request.number,
                more = request.more()] { reach(id, r, number, more); });
  }
  return true;
}

// A request reaches its instance.
void SimulatedCluster::reach(const InstanceId& id, Request* request, uint64_t number, int more) {
  if (request->ended || request->number != number) return;
  Server* server = find(id);
  if (server == nullptr || !alive(server->seen)) return door_.broke(*request, clock_.now());
  const int inferences = std::max(request->inferences, 1);
  server->waiting.emplace(number, Server::Item{request, number, inferences, request->deadline()});
  server->batcher->add({.ticket = number,
                        .inferences = inferences,
                        .key = "",
                        .more = more,
                        .arrived = clock_.now()});
  run_next(*server);
}

// Starts the next batch, or waits until the batcher has one.
void SimulatedCluster::run_next(Server& server) {
  if (!server.running.empty() || !alive(server.seen)) return;
  const Time now = clock_.now();
  const runtime::Batcher::Next next = server.batcher->next(now);
  if (next.batch.empty()) {
    if (next.wake == Time::max() || next.wake >= server.wake) return;
    server.wake = next.wake;
    events_.at(next.wake, [this, id = server.seen.instance.id] {
      Server* s = find(id);
      if (s == nullptr) return;
      s->wake = Time::max();
      run_next(*s);
    });
    return;
  }
  int inferences = 0;
  Time due = Time::max();
  for (const uint64_t ticket : next.batch) {
    const Server::Item item = server.waiting.at(ticket);
    server.waiting.erase(ticket);
    server.running.push_back(item);
    inferences += item.inferences;
    due = std::min(due, item.due);
  }
  Machine& machine = *server.machine;
  machine.device->begin(server.client, work(server, inferences), inferences, due, now);
  schedule(machine);
}

Truth SimulatedCluster::truth_of(const FunctionName& f) const {
  const auto found = plan_.truths.find(f);
  return found == plan_.truths.end() ? Truth{} : found->second;
}

// Returns how long a batch takes alone on the instance's sm.
Nanos SimulatedCluster::work(const Server& server, int batch) {
  const Instance& i = server.seen.instance;
  const Device& device = server.machine->plan.device;
  const auto predicted =
      predictor_.predict(model_on(i.function, i.revision, device), {batch, i.slice().sm, kWhole});
  SLUICE_CHECK(predicted.has_value(), "a simulated function has a profile on every type");
  const Truth truth = truth_of(i.function);
  double factor = truth.slowness;
  if (!faults_.empty()) factor *= faults_.times(Fault::Kind::kSlow, served_name(i.function));
  if (truth.variation > 0) factor *= 1 + truth.variation * (2 * random_.uniform() - 1);
  const auto us =
      static_cast<int64_t>(factor * static_cast<double>(predicted->median.count()) / 1e3);
  return Micros(std::max<int64_t>(us, 1));
}

void SimulatedCluster::batch_ended(Machine& machine, ClientId client) {
  const auto found = machine.clients.find(client);
  if (found == machine.clients.end()) return;
  const InstanceId id = found->second;
  Server& server = servers_.at(id);
  if (server.is_worker) return programs_->computed(id);
  const std::vector<Server::Item> answered = std::exchange(server.running, {});
  const auto answer = [this](const Server::Item& item) {
    if (!item.request->ended && item.request->number == item.number)
      door_.finish(*item.request, gateway::Outcome::kOk, clock_.now());
  };
  run_next(server);
  settle_drain(server);
  for (const Server::Item& item : answered) {
    if (plan_.hop == Nanos(0))
      answer(item);
    else
      events_.at(clock_.now() + plan_.hop, [answer, item] { answer(item); });
  }
}

// ---- devices -----------------------------------------------------------------------------------

void SimulatedCluster::schedule(Machine& machine) {
  const Time next = machine.device->next();
  if (next >= machine.scheduled) return;
  machine.scheduled = next;
  events_.at(next, [this, next, &machine] {
    if (machine.scheduled == next) advance(machine);
  });
}

void SimulatedCluster::advance(Machine& machine) {
  machine.scheduled = Time::max();
  const Time now = clock_.now();
  if (machine.device->next() <= now)
    for (const ClientId client : machine.device->step(now)) batch_ended(machine, client);
  schedule(machine);
}

// ---- faults ------------------------------------------------------------------------------------

void SimulatedCluster::begin(const Fault& f) {
  using Kind = Fault::Kind;
  if (f.kind == Kind::kKill) return kill(f.subject);
  if (f.kind == Kind::kFail) return fail(f.subject);
  faults_.begin(f);
  if (f.kind == Kind::kCrash) door_.crash(clock_.now());
}

void SimulatedCluster::end(const Fault& f) {
  faults_.end(f);
  if (f.kind == Fault::Kind::kCrash && !faults_.any(f.kind, f.subject)) door_.revive(clock_.now());
}

// The function's first ready instance.
void SimulatedCluster::kill(const std::string& function) {
  for (auto& [id, server] : servers_)
    if (server.seen.instance.state == InstanceState::kReady &&
        served_name(server.seen.instance.function) == function)
      return end(server, "killed by signal 9", false);
}

// Its node cordons the device, and kills what runs there.
void SimulatedCluster::fail(const DeviceId& device) {
  if (!machines_.contains(device)) return;
  const std::string fault = "it was to fail by the scenario";
  node::Ledger& ledger = machines_.at(device).node->ledger;
  SLUICE_CHECK(ledger.set_drained(device, true, fault).ok(), "a node has its devices");
  std::vector<Server::Item> lost;  // handed back once all of them are down
  for (auto& [id, server] : servers_)
    if (alive(server.seen) && server.seen.instance.device() == device) {
      server.seen.device_fault = fault;
      std::ranges::move(take_down(server, "its device failed", false), std::back_inserter(lost));
    }
  hand_back(lost);
}

std::map<FunctionName, SimulatedCluster::Held> SimulatedCluster::held() const {
  std::map<FunctionName, Held> all;
  for (const auto& [id, server] : servers_) {
    if (!alive(server.seen)) continue;
    Held& h = all[server.seen.instance.function];
    ++h.instances;
    h.ready += server.seen.instance.state == InstanceState::kReady;
    h.area += area(server.seen.instance.slice());
  }
  return all;
}

double SimulatedCluster::busy_seconds() const {
  double all = busy_before_;
  for (const auto& [id, server] : servers_) {
    if (!alive(server.seen)) continue;
    const Nanos used = server.machine->device->used(server.client, clock_.now());
    all += seconds(used) * server.seen.instance.slice().sm.fraction();
  }
  return all;
}

int64_t SimulatedCluster::arbiter_steps() const {
  int64_t steps = 0;
  for (const auto& [id, m] : machines_) steps += m.device->steps();
  return steps;
}

}  // namespace sluice::sim
