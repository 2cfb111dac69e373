// Stops: instances that are to end. First the gateway's routes leave an instance out. Once the
// gateway has no request at it, it gets the order to drain. The wait for a gateway that cannot be
// asked is no longer than the instance's own time.
//
// Plain state without side effects. One thread, the loop's.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "control/cluster.h"

namespace sluice::control {

class Stops {
 public:
  // `patience`: how long an instance may take to show that it drains, before the order is repeated.
  explicit Stops(Nanos patience) : patience_(patience) {}

  // The instance may take until `until` to finish its work. A repeated request keeps the first
  // time.
  void ask(const InstanceId& id, Time until) {
    stopping_.try_emplace(id, Stopping{.until = until});
  }
  bool asked(const InstanceId& id) const { return stopping_.contains(id); }
  bool empty() const { return stopping_.empty(); }
  // Returns whether an instance has not been ordered to drain.
  bool waiting() const;

  // The gateway's routes leave out all instances that were asked to stop.
  void left_out();
  // Its node reports that it drains.
  void drains(const InstanceId& id, Time now);
  // Forgets instances that are not alive among `seen`, which is sorted by id.
  void reconcile(const std::vector<ObservedInstance>& seen);

  struct Order {
    InstanceId id;
    Nanos drain{0};      // the rest of its time
    bool again = false;  // an earlier order had no effect
  };
  // Returns the instances to order to drain now; the orders count as given. `busy`: those with a
  // request in hand; nullptr if the gateway does not say, or has older routes.
  std::vector<Order> due(Time now, const std::set<InstanceId>* busy);

 private:
  struct Stopping {
    Time until{};
    bool left_out = false;     // by the gateway's routes
    std::optional<Time> told;  // when it was ordered to drain
  };
  const Nanos patience_;
  std::map<InstanceId, Stopping> stopping_;
};

struct Overdue {
  const ObservedInstance* instance = nullptr;
  Nanos since{0};
};
// Returns ready instances of ours that have answered nothing for longer than `grace` since a
// request ran into its timeout, at any gateway. Leaves out instances of nodes that do not answer.
std::vector<Overdue> overdue(const Observation& seen, Nanos grace);

}  // namespace sluice::control
