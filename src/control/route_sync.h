// RouteSync: the routes that the gateways have, so that only changes are sent. All gateways have
// one table.
//
// One thread, the loop's.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "control/routes.h"
#include "control/stops.h"

namespace sluice::control {

class RouteSync {
 public:
  // An input of the routes has changed that push() does not receive.
  void mark_stale() { stale_ = true; }

  // Sends the routes to the gateways that answer, if the routes have changed or one of these has
  // others. Instances that were asked to stop count as draining. Writes the gateways' answers into
  // `seen`. Returns whether every gateway has the current routes.
  bool push(Cluster& cluster, Observation& seen, const std::vector<RoutedFunction>& functions,
            const Stops& stops, const Predictor& predictor);
  // Returns whether every gateway has the routes sent last.
  bool have_them(const Observation& seen) const {
    return all_gateways_there(seen) &&
           std::ranges::all_of(seen.gateways, [this](const ObservedGateway& g) {
             return g.routes_version == version_;
           });
  }

 private:
  // Inputs of the routes that change by themselves.
  struct Function {
    FunctionName name;
    int newest = 0, serving = 0;
    std::string unavailable;
  };
  struct Place {
    Instance instance;
    std::string address;
  };
  bool give(Cluster& cluster, Observation& seen, const RoutingTable& table);
  // Returns which functions' routes may differ from those of the last call; all if others came or
  // went.
  std::vector<bool> changes(const std::vector<RoutedFunction>& functions,
                            const std::vector<ObservedInstance>& instances, const Stops& stops);

  // Brings those functions' routes in given_ up to date; if they are all, it holds no others.
  bool refresh(const std::vector<bool>& which, const Observation& seen,
               const std::vector<RoutedFunction>& functions, const Stops& stops,
               const Predictor& predictor);

  RoutingTable given_;               // the last one; version 0: unknown
  std::vector<Function> functions_;  // its inputs, of the last changes()
  std::vector<Place> places_;        // the same, by id
  bool stale_ = false;
  int64_t version_ = 0;
};

}  // namespace sluice::control
