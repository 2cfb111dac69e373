#include "policy/cluster_plan.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "policy/explain.h"

namespace sluice::policy {
namespace {

bool contains(std::span<const FunctionName> names, const FunctionName& name) {
  return std::binary_search(names.begin(), names.end(), name);
}

Room room_of(const Instance& i, bool movable) {
  return {i.id, i.slice.sm, i.slice.quota.request, i.position, i.slice.memory, movable};
}

Reason why_shifted(const Instance& before, Position to) {
  const Share quota = before.slice.quota.request;
  return {"shift",
          "Its " + percent(quota) + " of the window begin at " + percent(to.time_begin) +
              " instead of " + percent(before.position.time_begin) +
              ", so that a neighbour in its lane can have more.",
          {{"quota", quota.fraction()}}};
}

}  // namespace

ClusterPlan::ClusterPlan(const Snapshot& snapshot, std::span<const FunctionName> mine, bool movable)
    : snapshot_(snapshot) {
  for (const Device& d : snapshot.devices) devices_.emplace_back(d);
  for (const Instance& i : snapshot.instances) {
    if (i.state == InstanceState::kGone) continue;
    const bool ours = contains(mine, i.function) && i.state != InstanceState::kDraining;
    const auto on = std::find_if(devices_.begin(), devices_.end(),
                                 [&](const Lanes& l) { return l.device().id == i.device; });
    if (on == devices_.end()) continue;  // its device is gone, and so will it be
    on->add(room_of(i, ours && movable));
    if (ours) instances_.push_back({i, &i, false, {}});
  }
}

Lanes& ClusterPlan::device(const DeviceId& id) {
  return const_cast<Lanes&>(std::as_const(*this).device(id));
}

const Lanes& ClusterPlan::device(const DeviceId& id) const {
  const auto it = std::find_if(devices_.begin(), devices_.end(),
                               [&](const Lanes& l) { return l.device().id == id; });
  SLUICE_CHECK(it != devices_.end(), id);
  return *it;
}

std::vector<size_t> ClusterPlan::serving(const Demand& demand) const {
  std::vector<size_t> found;
  for (size_t i = 0; i < instances_.size(); ++i) {
    const PlannedInstance& p = instances_[i];
    if (p.stopping || p.instance.function != demand.function()) continue;
    if (p.instance.revision == demand.revision) found.push_back(i);
  }
  return found;
}

bool ClusterPlan::on_drained(size_t i) const {
  return device(instances_[i].instance.device).device().drained;
}

const Instance& ClusterPlan::instance(const InstanceId& id) const {
  for (const PlannedInstance& p : instances_) {
    if (p.instance.id == id) return p.instance;
  }
  const auto other = std::find_if(snapshot_.instances.begin(), snapshot_.instances.end(),
                                  [&](const Instance& i) { return i.id == id; });
  SLUICE_CHECK(other != snapshot_.instances.end(), id);
  return *other;
}

void ClusterPlan::start(const Demand& demand, Lanes& device, const Opening& opening, Quota quota,
                        Bytes memory, int batch, Reason reason) {
  PlannedInstance p;
  p.instance.id =
      "start " + std::to_string(instances_.size());  // a place holder: ids hold no space
  p.instance.function = demand.function();
  p.instance.revision = demand.revision;
  p.instance.device = device.device().id;
  p.instance.slice = {opening.sm, quota, memory};
  p.instance.batch = batch;
  p.reason = std::move(reason);
  device.place(p.instance.id, opening, quota.request, memory, true);
  instances_.push_back(std::move(p));
}

void ClusterPlan::resize(size_t i, Quota quota, Reason reason) {
  PlannedInstance& p = instances_[i];
  device(p.instance.device).resize(p.instance.id, quota.request);
  p.instance.slice.quota = quota;
  p.reason = std::move(reason);
}

void ClusterPlan::stop(size_t i, Reason reason) {
  device(instances_[i].instance.device).pin(instances_[i].instance.id);
  instances_[i].stopping = true;
  instances_[i].reason = std::move(reason);
}

void ClusterPlan::unmet(const Demand& demand, double gap, Reason reason) {
  unmet_.push_back({demand.function(), Unmet{gap}, std::move(reason)});
}

void ClusterPlan::stop_retired(std::span<const Demand> demands) {
  for (size_t i = 0; i < instances_.size(); ++i) {
    const Instance& instance = instances_[i].instance;
    const bool wanted = std::any_of(demands.begin(), demands.end(), [&](const Demand& d) {
      return d.function() == instance.function && d.revision == instance.revision;
    });
    if (wanted) continue;
    stop(i, {"retired",
             "Revision " + std::to_string(instance.revision) + " has no traffic any more.",
             {{"revision", instance.revision}}});
  }
}

const Room& ClusterPlan::room(const PlannedInstance& p) const {
  return device(p.instance.device).room(p.instance.id);
}

std::optional<Action> ClusterPlan::change(const PlannedInstance& p) const {
  const Instance& i = p.instance;
  const Position to = room(p).position;
  if (p.before == nullptr) {
    const StartInstance start{i.function, i.revision, i.device, i.slice, to, i.batch};
    return Action{i.function, start, p.reason};
  }
  if (p.before->slice != i.slice) {
    return Action{i.function, ResizeInstance{i.id, i.slice, to}, p.reason};
  }
  if (p.before->position != to) {
    return Action{i.function, ResizeInstance{i.id, i.slice, to}, why_shifted(*p.before, to)};
  }
  return std::nullopt;
}

// Rooms as the snapshot has them, by device: where each step of actions() begins.
std::vector<ClusterPlan::Held> ClusterPlan::held_before() const {
  std::vector<Held> held;
  for (const Lanes& lanes : devices_) {
    for (const Room& r : lanes.rooms()) held.push_back({lanes.device().id, r});
  }
  for (const PlannedInstance& p : instances_) {
    std::erase_if(held, [&](const Held& h) { return h.room.id == p.instance.id; });
    if (p.before != nullptr) held.push_back({p.before->device, room_of(*p.before, false)});
  }
  return held;
}

std::vector<Action> ClusterPlan::actions() const {
  std::vector<Action> actions;
  std::vector<const PlannedInstance*> pending;
  for (const PlannedInstance& p : instances_) {
    if (p.stopping) actions.push_back({p.instance.function, StopInstance{p.instance.id}, p.reason});
    if (change(p)) pending.push_back(&p);
  }
  // Rooms of a lane keep their order, so of two neighbours at most one waits for the other: there
  // is always a change whose target is free (unless rooms overlapped before, then any order is as
  // good).
  std::vector<Held> held = held_before();
  const auto free = [&](const PlannedInstance* p) {
    return std::none_of(held.begin(), held.end(), [&](const Held& h) {
      return h.device == p->instance.device && h.room.id != p->instance.id &&
             overlap(h.room, room(*p));
    });
  };
  while (!pending.empty()) {
    auto next = std::find_if(pending.begin(), pending.end(), free);
    if (next == pending.end()) next = pending.begin();
    const PlannedInstance& p = **next;
    std::erase_if(held, [&](const Held& h) { return h.room.id == p.instance.id; });
    held.push_back({p.instance.device, room(p)});
    actions.push_back(*change(p));
    pending.erase(next);
  }
  actions.insert(actions.end(), unmet_.begin(), unmet_.end());
  return actions;
}

}  // namespace sluice::policy
