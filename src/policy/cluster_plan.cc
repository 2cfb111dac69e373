#include "policy/cluster_plan.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "policy/explain.h"

namespace sluice::policy {
namespace {

bool contains(std::span<const FunctionName> names, const FunctionName& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Room room_of(const Instance& i, bool movable) {
  return {i.id, i.slice.sm, i.slice.quota.request, i.position, i.slice.memory, movable};
}

}  // namespace

ClusterPlan::ClusterPlan(const Snapshot& snapshot, std::span<const FunctionName> mine, bool movable)
    : mine_(mine) {
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

void ClusterPlan::resize(size_t i, Share quota, Reason reason) {
  PlannedInstance& p = instances_[i];
  device(p.instance.device).resize(p.instance.id, quota);
  p.instance.slice.quota = {quota, quota};
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

std::vector<Action> ClusterPlan::actions() const {
  std::vector<Action> actions;
  struct Change {
    Action action;
    const PlannedInstance* of;
  };
  std::vector<Change> changes;
  for (const PlannedInstance& p : instances_) {
    const Instance& i = p.instance;
    const Position to = room(p).position;
    if (p.before == nullptr) {
      changes.push_back(
          {{i.function, StartInstance{i.function, i.revision, i.device, i.slice, to, i.batch},
            p.reason},
           &p});
    } else if (p.before->slice != i.slice) {
      changes.push_back({{i.function, ResizeInstance{i.id, i.slice, to}, p.reason}, &p});
    } else if (p.before->position != to) {
      const Reason shifted{
          "shift",
          "Its turn moved from " + percent(p.before->position.time_begin) + " to " +
              percent(to.time_begin) + " of the window, so that a neighbour in its lane " +
              "can have more; its share stays " + percent(i.slice.quota.request) + ".",
          {{"quota", i.slice.quota.request.fraction()}}};
      changes.push_back({{i.function, ResizeInstance{i.id, i.slice, to}, shifted}, &p});
    }
    if (p.stopping) actions.push_back({i.function, StopInstance{i.id}, p.reason});
  }
  // Rooms of a lane keep their order, so of two neighbours at most one waits for the other: there
  // is always a change whose target is free.
  std::vector<std::pair<DeviceId, Room>> held;
  for (const Lanes& lanes : devices_) {
    for (const Room& r : lanes.rooms()) held.emplace_back(lanes.device().id, r);
  }
  std::erase_if(held, [&](const auto& h) { return h.second.id.starts_with("start "); });
  for (const PlannedInstance& p : instances_) {
    for (auto& [device, room] : held) {
      if (p.before != nullptr && room.id == p.before->id) room = room_of(*p.before, false);
    }
  }
  while (!changes.empty()) {
    const auto next = std::find_if(changes.begin(), changes.end(), [&](const Change& c) {
      return std::none_of(held.begin(), held.end(), [&](const auto& h) {
        return h.first == c.of->instance.device && h.second.id != c.of->instance.id &&
               overlap(h.second, room(*c.of));
      });
    });
    const auto take =
        next == changes.end() ? changes.begin() : next;  // overlapped before: as it is
    const PlannedInstance& p = *take->of;
    std::erase_if(held, [&](const auto& h) { return h.second.id == p.instance.id; });
    held.emplace_back(p.instance.device, room(p));
    actions.push_back(std::move(take->action));
    changes.erase(take);
  }
  actions.insert(actions.end(), unmet_.begin(), unmet_.end());
  return actions;
}

}  // namespace sluice::policy
