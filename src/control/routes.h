// The gateway's routing table, computed from the loop's state. Pure.
#pragma once

#include <string>
#include <vector>

#include "control/cluster.h"
#include "control/desired_state.h"
#include "model/predictor.h"
#include "model/routing.h"

namespace sluice::control {

struct RoutedFunction {
  const StoredFunction* function = nullptr;
  std::string_view route;   // route.h's name
  std::string unavailable;  // why there is no instance; empty: one will come
};

// Returns the per cent of the traffic by revision: all to the serving one; a canary that is ready
// gets its canary_traffic_percent. A newest revision that is to have everything gets it at once,
// when the loop makes it the serving one.
std::vector<std::pair<int, int>> traffic_split(const StoredFunction& f, bool newest_ready);

// An instance, and whether it is ready or drains as far as its requests go.
struct RoutedInstance {
  const ObservedInstance* instance = nullptr;
  InstanceState state = InstanceState::kStarting;
};

// Returns a function's part of the table. `instances` are its own. Equal input gives an equal
// route. REQUIRES: `devices` are sorted by id, as observations are.
FunctionRoute function_route(const RoutedFunction& function,
                             const std::vector<RoutedInstance>& instances,
                             const std::vector<Device>& devices, const Predictor& predictor);

// Returns the newest one for a number that is not there.
const Revision& revision_of(const StoredFunction& f, int revision);
const FunctionSpec& spec_of(const StoredFunction& f, int revision);

}  // namespace sluice::control
