#include "control/kube/instance_pods.h"

#include <algorithm>

#include "base/log.h"

namespace sluice::control {
namespace {

bool has_ended(const InstancePod& pod) {
  return pod.phase == "Failed" || pod.phase == "Succeeded";
}

// Returns "Failed: Evicted: The node was low on resource: memory.".
std::string said_of(const InstancePod& pod) {
  std::string text = "its Pod " + pod.space + "/" + pod.instance + " is " + pod.phase;
  for (const std::string& part : {pod.reason, pod.message})
    if (!part.empty()) text += ": " + part;
  return text;
}

// A kubelet goes on trying; what it lacks, an image or a Secret, is for a user to put there.
bool cannot_start(const InstancePod& pod) {
  static constexpr std::string_view kReasons[] = {
      "ErrImagePull",         "ImagePullBackOff",           "ErrImageNeverPull", "InvalidImageName",
      "CreateContainerError", "CreateContainerConfigError", "RunContainerError"};
  return pod.phase == "Pending" && std::ranges::find(kReasons, pod.reason) != std::end(kReasons);
}

// Any user may make a Pod that has an instance's name and our labels, in another namespace.
bool is_of(const InstancePod& pod, const Instance& i) {
  return pod.instance == i.id && pod.space == i.function.space;
}

bool is_due(const std::optional<Time>& last, Time now) {
  return !last || now - *last >= InstancePods::kAgain;
}

}  // namespace

void InstancePods::ordered(PodOrder order, bool made, Time now) {
  const InstanceId id = order.instance.id;
  Order& o = orders_.try_emplace(id, Order{std::move(order), {}}).first->second;
  if (made) o.made = now;
}

void InstancePods::stopped(const InstanceId& id, Nanos drain, bool removed, Time now) {
  orders_.erase(id);
  drains_[id] = drain;
  if (removed) removed_[id] = now;
}

void InstancePods::failed(const PodFailure& failure) {
  fail(failure.instance, "its Pod cannot be made: " + failure.message,
       failure.kind != ErrorKind::kInvalid);
}

void InstancePods::fail(const InstanceId& id, std::string why, bool by_cluster) {
  orders_.erase(id);
  if (!failures_.try_emplace(id, Failure{why, by_cluster, {}}).second) return;
  log::warn("{}: {}", id, why);
}

InstancePods::Plan InstancePods::step(const Observation& seen, const std::vector<InstancePod>& pods,
                                      Time now) {
  lasting_.begin_step(now);
  Plan plan;
  std::map<InstanceId, const InstancePod*> by_instance;
  listed_.clear();
  deleting_.clear();
  for (const InstancePod& pod : pods) {
    if (!may_be_its(pod, seen)) continue;
    by_instance.emplace(pod.instance, &pod);
    if (pod.deleting) deleting_.insert(pod.instance);
    listed_.insert(pod.instance);
    orders_.erase(pod.instance);
  }
  for (const ObservedInstance& o : seen.instances) {
    if (!ours(o)) continue;
    const auto pod = by_instance.find(o.instance.id);
    step(o, pod != by_instance.end() ? pod->second : nullptr, now, plan);
  }
  for (const InstancePod& pod : pods) step_pod(pod, seen, now, plan);
  forget(seen);
  return plan;
}

// Returns false for a Pod in another namespace than the instance whose name it has.
bool InstancePods::may_be_its(const InstancePod& pod, const Observation& seen) const {
  if (const ObservedInstance* o = find(seen.instances, pod.instance))
    return is_of(pod, o->instance);
  const auto order = orders_.find(pod.instance);
  return order == orders_.end() || is_of(pod, order->second.order.instance);
}

void InstancePods::step(const ObservedInstance& o, const InstancePod* pod, Time now, Plan& plan) {
  const InstanceId& id = o.instance.id;
  if (pod != nullptr)
    with_pod(o, *pod, now, plan);
  else if (o.instance.state == InstanceState::kStarting)
    without_pod(id, now, plan);
  const auto failure = failures_.find(id);
  if (failure == failures_.end() || o.instance.state >= InstanceState::kDraining) return;
  if (!is_due(failure->second.stopped, now)) return;
  failure->second.stopped = now;
  plan.stop.push_back(id);
}

void InstancePods::without_pod(const InstanceId& id, Time now, Plan& plan) {
  if (failures_.contains(id)) return;
  if (const auto order = orders_.find(id); order != orders_.end()) {
    if (!is_due(order->second.made, now)) return;
    order->second.made = now;
    plan.make.push_back(order->second.order);
  } else if (lasting_.for_as_long_as(kSettle, "starts without a Pod: " + id)) {
    fail(id, "it has no Pod: its Pod was deleted, or never made", true);
  }
}

void InstancePods::with_pod(const ObservedInstance& o, const InstancePod& pod, Time now,
                            Plan& plan) {
  const InstanceId& id = o.instance.id;
  if (o.instance.state == InstanceState::kDraining) {
    const auto drain = drains_.find(id);
    remove(pod, drain != drains_.end() ? drain->second : kDrain, now, plan);
  } else if (alive(o) && has_ended(pod) &&
             lasting_.for_as_long_as(kSettle, "its Pod has ended: " + id)) {
    fail(id, said_of(pod), pod.by_cluster);
  } else if (o.instance.state == InstanceState::kStarting && cannot_start(pod) &&
             lasting_.for_as_long_as(kStuck, "its Pod cannot start: " + id)) {
    fail(id, said_of(pod), true);
  }
}

// The Pod of an instance that has left its node's report, or of a node that has left the cluster.
void InstancePods::step_pod(const InstancePod& pod, const Observation& seen, Time now, Plan& plan) {
  const ObservedNode* node = find_node(seen, pod.node);
  const ObservedInstance* o = find(seen.instances, pod.instance);
  const bool has_instance = o != nullptr && is_of(pod, o->instance);
  if (node != nullptr && (!node->node.reachable || has_instance)) return;
  const std::string name = pod.space + "/" + pod.instance;
  if (lasting_.for_as_long_as(kSettle, "a Pod without an instance: " + name))
    remove(pod, kDrain, now, plan);
}

void InstancePods::remove(const InstancePod& pod, Nanos grace, Time now, Plan& plan) {
  const auto ordered = removed_.find(pod.instance);
  const bool due = ordered == removed_.end() || now - ordered->second >= kAgain;
  if (pod.deleting || !due) return;
  removed_[pod.instance] = now;
  plan.remove.push_back({pod.space, pod.instance, grace});
}

// Orders whose instance no agent reports were not carried out, or have ended. An order of a node
// that does not answer may be.
void InstancePods::forget(const Observation& seen) {
  const auto away = [&](const std::string& name) {
    const ObservedNode* node = find_node(seen, name);
    return node != nullptr && !node->node.reachable;
  };
  const auto gone = [&](const InstanceId& id) {
    return find(seen.instances, id) == nullptr &&
           lasting_.for_as_long_as(kForget, "reported by no agent: " + id);
  };
  std::erase_if(orders_,
                [&](const auto& o) { return !away(o.second.order.node) && gone(o.first); });
  std::erase_if(failures_, [&](const auto& f) { return gone(f.first); });
  std::erase_if(drains_, [&](const auto& d) { return gone(d.first); });
  std::erase_if(removed_, [&](const auto& r) { return !listed_.contains(r.first); });
}

void InstancePods::explain(Observation& seen) const {
  for (const auto& [id, failure] : failures_) {
    ObservedInstance* o = find_instance(seen.instances, id);
    if (o == nullptr || alive(*o) || !failure.stopped || !o->stopped) continue;
    o->stopped = false;
    o->error = failure.why;
    o->node_fault = failure.by_cluster;
  }
  for (const InstanceId& id : deleting_) {
    ObservedInstance* o = find_instance(seen.instances, id);
    if (o != nullptr && alive(*o)) o->instance.state = InstanceState::kDraining;
  }
}

}  // namespace sluice::control
