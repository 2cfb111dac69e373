#include "policy/scale/cluster_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/check.h"
#include "policy/explain.h"

namespace sluice::policy {
namespace {

Reason why_shifted(const Instance& before, Position to) {
  const Share quota = before.slice().quota.request;
  return {"shift",
          "Its " + percent(quota) + " of the window begin at " + percent(to.time_begin) +
              " instead of " + percent(before.position().time_begin) +
              ", so that another has its time in one piece.",
          {{"quota", quota.fraction()}}};
}

}  // namespace

ClusterPlan::ClusterPlan(const Input& input, bool movable)
    : input_(input),
      demands_(policy::demands(input)),
      types_(one_of_each_type(input.snapshot.devices)),
      movable_(movable),
      mine_(input.snapshot.functions.size()),
      layouts_(input.snapshot.devices, input.placement, input.arbiter,
               [this](size_t device, Layout& layout) { lay_out(device, layout); }),
      of_function_(input.snapshot.functions.size()) {
  std::vector<uint32_t> ours;
  for (const FunctionName& name : input.mine) {
    const auto f = input_.index.function(name);
    if (!f) continue;
    mine_[*f] = true;
    std::ranges::copy_if(input_.index.of_function(*f), std::back_inserter(ours),
                         [&](uint32_t k) { return is_ours(k); });
  }
  std::ranges::sort(ours);  // by id
  for (const uint32_t k : ours) {
    const Instance& i = input_.snapshot.instances[k];
    of_function_[*input_.index.function_of(k)].push_back(instances_.size());
    instances_.push_back({i, &i, *input_.index.device_of(k), false, {}});
  }
  stop_retired();
}

bool ClusterPlan::is_ours(uint32_t instance) const {
  const InstanceState state = input_.snapshot.instances[instance].state;
  const auto function = input_.index.function_of(instance);
  return state != InstanceState::kGone && state != InstanceState::kDraining &&
         input_.index.device_of(instance) && function && mine_[*function];
}

void ClusterPlan::lay_out(size_t device, Layout& layout) const {
  for (const uint32_t k : input_.index.on_device(static_cast<uint32_t>(device))) {
    const Instance& i = input_.snapshot.instances[k];
    if (i.state == InstanceState::kGone) continue;
    const auto function = input_.index.function_of(k);
    layout.add(room_of(i, movable_ && is_ours(k) && layout.device().reachable,
                       function ? &input_.snapshot.functions[*function] : nullptr));
  }
}

uint32_t ClusterPlan::function_of(const Demand& demand) const {
  const auto at = demand.view - input_.snapshot.functions.data();
  SLUICE_CHECK(at >= 0 && at < std::ssize(of_function_), to_string(demand.function()));
  return static_cast<uint32_t>(at);
}

std::vector<size_t> ClusterPlan::serving(const Demand& demand) const {
  std::vector<size_t> found;
  for (const size_t i : of_function_[function_of(demand)]) {
    const PlannedInstance& p = instances_[i];
    if (!p.stopping && p.instance.revision == demand.revision) found.push_back(i);
  }
  return found;
}

std::vector<size_t> ClusterPlan::counted(const Demand& demand) const {
  std::vector<size_t> found = serving(demand);
  std::erase_if(found, [&](size_t i) { return on_drained(i); });
  return found;
}

std::vector<size_t> ClusterPlan::cordoned(const Demand& demand) const {
  std::vector<size_t> found = serving(demand);
  std::erase_if(found, [&](size_t i) { return !on_drained(i); });
  return found;
}

const Device& ClusterPlan::type_of(const Device& device) const {
  const auto found = std::ranges::find_if(types_, [&](auto* t) { return alike(*t, device); });
  SLUICE_CHECK(found != types_.end(), device.id);
  return **found;
}

const Instance& ClusterPlan::instance(const InstanceId& id) const {
  if (const auto i = input_.index.instance(id)) return input_.snapshot.instances[*i];
  const auto started = std::find_if(instances_.begin(), instances_.end(),
                                    [&](const PlannedInstance& p) { return p.instance.id == id; });
  SLUICE_CHECK(started != instances_.end(), id);
  return started->instance;
}

void ClusterPlan::start(const Demand& demand, const Spot& spot, Quota quota, Bytes memory,
                        int batch, Reason reason) {
  start(demand, spot, Slice{.sm = spot.opening.sm, .quota = quota, .memory = memory}, batch,
        std::move(reason));
}

void ClusterPlan::start(const Demand& demand, const Spot& spot, Slice slice, int batch,
                        Reason reason) {
  slice.sm = spot.opening.sm;
  PlannedInstance p;
  p.instance.id =
      "start " + std::to_string(instances_.size());  // a placeholder: real ids hold no space
  p.instance.function = demand.function();
  p.instance.revision = demand.revision;
  p.instance.first().device = spot.device->device().id;
  p.instance.first().slice = slice;
  p.instance.batch = batch;
  p.instance.arbiter = spot.device->arbiter();
  const auto device = input_.index.device(p.instance.device());
  SLUICE_CHECK(device, p.instance.device());
  p.device = *device;
  p.reason = std::move(reason);
  instances_.push_back(std::move(p));
  const Instance& started = instances_.back().instance;
  layouts_[*device].place(room_of(started, true, demand.view), spot.opening);
  of_function_[function_of(demand)].push_back(instances_.size() - 1);
}

void ClusterPlan::resize(size_t i, Quota quota, Reason reason) {
  if (!can_change(i)) return;
  PlannedInstance& p = instances_[i];
  layouts_[p.device].resize(p.instance.id, quota.request);
  layouts_[p.device].set_limit(p.instance.id, quota.limit);
  p.instance.first().slice.quota = quota;
  p.reason = std::move(reason);
}

void ClusterPlan::stop(size_t i, Reason reason) {
  if (!can_change(i)) return;
  PlannedInstance& p = instances_[i];
  layouts_[p.device].pin(p.instance.id);
  p.stopping = true;
  p.reason = std::move(reason);
}

void ClusterPlan::unmet(const Demand& demand, double gap, Reason reason) {
  unmet_.push_back({demand.function(), Unmet{gap}, std::move(reason)});
}

// Those of `mine` whose revision has no traffic any more.
void ClusterPlan::stop_retired() {
  std::vector<std::vector<int>> wanted(of_function_.size());  // revisions
  for (const Demand& d : demands_) wanted[function_of(d)].push_back(d.revision);
  for (size_t f = 0; f < of_function_.size(); ++f) {
    for (const size_t i : of_function_[f]) {
      const int revision = instances_[i].instance.revision;
      if (std::find(wanted[f].begin(), wanted[f].end(), revision) != wanted[f].end()) continue;
      stop(i, {"retired",
               "Revision " + std::to_string(revision) + " has no traffic any more.",
               {{"revision", revision}}});
    }
  }
}

const Room& ClusterPlan::room(const PlannedInstance& p) const {
  return layout(p).room(p.instance.id);
}

std::optional<Action> ClusterPlan::change(const PlannedInstance& p) const {
  const Instance& i = p.instance;
  if (!layouts_.asked_for(p.device)) return std::nullopt;
  const Position to = room(p).position;
  const Part part{i.device(), i.slice(), to};
  if (p.before == nullptr) {
    const StartInstance start{i.function, i.revision, {part}, i.batch, i.arbiter};
    return Action{i.function, start, p.reason};
  }
  if (p.before->slice() != i.slice()) {
    return Action{i.function, ResizeInstance{i.id, {part}}, p.reason};
  }
  if (p.before->position() != to) {
    return Action{i.function, ResizeInstance{i.id, {part}}, why_shifted(*p.before, to)};
  }
  return std::nullopt;
}

// Rectangles of a lane keep their order, so of two neighbours at most one waits for the other:
// there is always a change whose target is free (unless they overlapped before; then any order is
// as good).
std::vector<Action> ClusterPlan::changes() const {
  std::vector<const PlannedInstance*> pending;
  std::map<uint32_t, std::vector<Room>> held;  // on the devices that change
  for (const PlannedInstance& p : instances_) {
    if (!change(p)) continue;
    pending.push_back(&p);
    held.try_emplace(p.device, layouts_[p.device].rooms());
  }
  const auto forget = [&](const PlannedInstance& p) {
    std::erase_if(held[p.device], [&](const Room& r) { return r.id == p.instance.id; });
  };
  for (const PlannedInstance& p : instances_) {  // each step begins from the snapshot
    if (!held.contains(p.device)) continue;
    forget(p);
    if (p.before != nullptr) held[p.device].push_back(room_of(*p.before, false));
  }
  const auto free = [&](const PlannedInstance* p) {
    return std::ranges::none_of(held[p->device], [&](const Room& r) {
      return r.id != p->instance.id && overlap(r, room(*p));
    });
  };
  std::vector<Action> actions;
  while (!pending.empty()) {
    auto next = std::find_if(pending.begin(), pending.end(), free);
    if (next == pending.end()) next = pending.begin();
    const PlannedInstance& p = **next;
    forget(p);
    held[p.device].push_back(room(p));
    actions.push_back(*change(p));
    pending.erase(next);
  }
  return actions;
}

std::vector<Action> ClusterPlan::actions() const {
  std::vector<Action> actions;
  for (const PlannedInstance& p : instances_) {
    if (p.stopping) actions.push_back({p.instance.function, StopInstance{p.instance.id}, p.reason});
  }
  std::vector<Action> steps = changes();
  std::move(steps.begin(), steps.end(), std::back_inserter(actions));
  actions.insert(actions.end(), unmet_.begin(), unmet_.end());
  return actions;
}

std::string spot_text(const Spot& spot, Share quota) {
  return slice_text(spot.opening.sm, quota) + " on " + spot.device->device().id;
}

}  // namespace sluice::policy
