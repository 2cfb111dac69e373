// What a simulated cluster promises at every moment.
#include <algorithm>
#include <utility>

#include "sim/cluster.h"

namespace sluice::sim {
namespace {

Error wrong(const std::string& where, const std::string& what) {
  return {ErrorKind::kInternal, "invariant: " + where + ": " + what};
}

bool apart(Share a, Share a_size, Share b, Share b_size) {
  return a + a_size <= b || b + b_size <= a;
}

bool overlap(const Part& a, const Part& b) {
  return !apart(a.position.sm_begin, a.slice.sm, b.position.sm_begin, b.slice.sm) &&
         !apart(a.position.time_begin, a.slice.quota.request, b.position.time_begin,
                b.slice.quota.request);
}

bool within_device(const Part& p) {
  return p.slice.sm > kNone && p.position.sm_begin >= kNone &&
         p.position.sm_begin + p.slice.sm <= kWhole && p.slice.quota.request > kNone &&
         p.position.time_begin >= kNone && p.position.time_begin + p.slice.quota.request <= kWhole;
}

}  // namespace

// A device's promises fit, and its arbiter knows the same clients with the same shares.
Result<void> SimulatedCluster::check(const Machine& machine) const {
  const DeviceId& id = machine.plan.device.id;
  const auto& promises = machine.node->ledger.promises();
  std::vector<const Part*> parts;
  Bytes memory = 0;
  for (const auto& [client, instance] : machine.clients) {
    const auto promise = promises.find(instance);
    if (promise == promises.end()) return wrong(id, instance + " is a client and holds no slice");
    const auto server = servers_.find(instance);
    if (server == servers_.end() || !alive(server->second.seen))
      return wrong(id, instance + " is gone and holds a slice");
    const Part* part = node::part_on(promise->second.parts, id);
    const policy::ShareClient* share = machine.device->share_of(client);
    if (part == nullptr || share == nullptr || share->sm != part->slice.sm ||
        share->quota != part->slice.quota || share->position != part->position)
      return wrong(id, "its arbiter and its ledger differ about " + instance);
    if (!within_device(*part)) return wrong(id, instance + " holds what is not there");
    for (const Part* other : parts)
      if (overlap(*part, *other)) return wrong(id, "the slice of " + instance + " is held twice");
    parts.push_back(part);
    memory += part->slice.memory;
  }
  if (memory > machine.plan.device.memory)
    return wrong(id, std::to_string(memory) + " bytes are promised");
  return {};
}

Result<void> SimulatedCluster::check(const NodeState& node) const {
  size_t clients = 0;
  for (const Machine* machine : node.machines) {
    clients += machine->clients.size();
    SLUICE_TRY(check(*machine));
  }
  if (const size_t promises = node.ledger.promises().size(); promises != clients)
    return wrong(node.machines.front()->plan.device.node,
                 std::to_string(promises) + " instances hold slices and " +
                     std::to_string(clients) + " are clients of its devices");
  return {};
}

Result<void> SimulatedCluster::check() {
  bool any = false;
  for (auto& [name, node] : nodes_) {
    if (!std::exchange(node.changed, false)) continue;
    any = true;
    SLUICE_TRY(check(node));
  }
  if (!any) return {};
  const auto living =
      std::ranges::count_if(servers_, [](const auto& entry) { return alive(entry.second.seen); });
  if (living != use_.instances)
    return wrong("the cluster", std::to_string(living) + " instances run, and " +
                                    std::to_string(use_.instances) + " hold slices");
  return {};
}

void SimulatedCluster::each_instance(
    const std::function<void(const control::ObservedInstance&)>& call) const {
  for (const auto& [id, server] : servers_) call(server.seen);
}

bool SimulatedCluster::has_empty_device(const DeviceType& type, Bytes memory) const {
  for (const auto& [id, m] : machines_) {
    if (!m.clients.empty() || type_of(m.plan.device) != type) continue;
    if (m.plan.device.memory < memory) continue;
    const Device* d = m.node->ledger.find(id);
    if (!d->drained && reachable(d->node)) return true;
  }
  return false;
}

}  // namespace sluice::sim
