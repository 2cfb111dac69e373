#include "control/starts.h"

#include <algorithm>

namespace sluice::control {

void Starts::ordered(const Instance& i, Time now) {
  ordered_.insert_or_assign(i.id, i).first->second.started = now;
  decided_.insert_or_assign(i.id, now);
}

Time Starts::decided_at(const InstanceId& id) const {
  const auto found = decided_.find(id);
  return found == decided_.end() ? Time{} : found->second;
}

std::vector<Instance> Starts::reconcile(const std::vector<ObservedInstance>& seen,
                                        const std::vector<Device>& devices, Time now) {
  std::vector<Instance> lost;
  std::erase_if(ordered_, [&](const auto& order) {
    if (find(seen, order.first) != nullptr) return true;
    if (now - order.second.started < settings_.patience) return false;
    const Device* device = find(devices, order.second.device());
    if (device != nullptr && !device->reachable) return false;
    lost.push_back(order.second);
    return true;
  });
  // Both are sorted by id: one walk over both.
  auto at = seen.begin();
  std::erase_if(decided_, [&](const auto& decided) {
    while (at != seen.end() && at->instance.id < decided.first) ++at;
    const bool there = at != seen.end() && at->instance.id == decided.first;
    return !there && !ordered_.contains(decided.first);
  });
  return lost;
}

const Starts::Trouble& Starts::failed(const FunctionName& f, int revision, bool node_fault,
                                      std::string error, Time now) {
  Trouble& t = troubles_[{f, revision}];
  // Several instances that were started at once are one try.
  if (t.tries == 0 || now >= t.retry_at) {
    if (!node_fault) ++t.failures;
    const Nanos wait = Seconds(1LL << std::min(++t.tries, 10));
    t.retry_at = now + std::min(wait, settings_.retry_most);
  }
  t.error = std::move(error);
  t.reported = false;
  return t;
}

const Starts::Trouble& Starts::give_up(const FunctionName& f, int revision) {
  Trouble& t = troubles_.at({f, revision});
  t.given_up = true;
  t.retry_at = Time::max();
  return t;
}

const Starts::Trouble* Starts::trouble(const FunctionName& f, int revision) const {
  const auto found = troubles_.find({f, revision});
  return found == troubles_.end() ? nullptr : &found->second;
}

Starts::Trouble* Starts::backoff(const FunctionName& f, int revision, Time now) {
  const auto found = troubles_.find({f, revision});
  return found == troubles_.end() || now >= found->second.retry_at ? nullptr : &found->second;
}

std::string said_of_given_up(int revision, const Starts::Trouble& t) {
  return "Revision " + std::to_string(revision) + " could not start in " +
         std::to_string(t.failures) +
         " tries and is not started again. Apply its file again for new tries. The last one: " +
         t.error;
}

}  // namespace sluice::control
