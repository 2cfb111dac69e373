#include "control/stops.h"

#include <algorithm>

namespace sluice::control {

bool Stops::waiting() const {
  return std::ranges::any_of(stopping_, [](const auto& s) { return !s.second.told; });
}

void Stops::left_out() {
  for (auto& [id, s] : stopping_) s.left_out = true;
}

void Stops::drains(const InstanceId& id, Time now) {
  if (const auto found = stopping_.find(id); found != stopping_.end()) found->second.told = now;
}

void Stops::reconcile(const std::vector<ObservedInstance>& seen) {
  std::erase_if(stopping_, [&](const auto& stopping) {
    const ObservedInstance* o = find(seen, stopping.first);
    return o == nullptr || !alive(*o);
  });
}

// A granted request may still be in flight: an instance that drains before it arrives loses it.
std::vector<Stops::Order> Stops::due(Time now, const std::set<InstanceId>* busy) {
  std::vector<Order> orders;
  for (auto& [id, s] : stopping_) {
    const Nanos left = s.until - now;
    const bool idle = s.left_out && busy != nullptr && !busy->contains(id);
    const bool again = s.told && now - *s.told >= patience_;
    if ((s.told && !again) || (!s.told && !idle && left > Nanos(0))) continue;
    orders.push_back({id, std::max(left, Nanos(0)), again});
    s.told = now;
  }
  return orders;
}

std::vector<Overdue> overdue(const Observation& seen, Nanos grace) {
  std::vector<Overdue> found;
  for (const ObservedGateway& gateway : seen.gateways)
    for (const auto& [id, since] : gateway.overdue) {
      if (since <= grace) continue;
      const ObservedInstance* o = find(seen.instances, id);
      if (o != nullptr && ours(*o) && o->reachable && o->instance.state == InstanceState::kReady)
        found.push_back({o, since});
    }
  return found;
}

}  // namespace sluice::control
