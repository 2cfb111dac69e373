// The gateway's routing table, computed from what there is. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "control/cluster.h"
#include "control/store.h"
#include "model/predictor.h"

namespace sluice::control {

struct RoutedFunction {
  const StoredFunction* function = nullptr;
  std::string_view route;   // route.h's name
  std::string unavailable;  // why no instance can be had; empty: one will come
};

// Per cent of the traffic by revision: all to the serving one; a canary that is ready gets its
// canary_traffic_percent. A newest revision that is to have everything gets it at once, when the
// loop makes it the serving one.
std::vector<std::pair<int, int>> traffic_split(const StoredFunction& f, bool newest_ready);

// Without its version; equal input gives equal text, so that a change can be told.
nlohmann::json routing_table(const std::vector<RoutedFunction>& functions,
                             const std::vector<ObservedInstance>& instances,
                             const Predictor& predictor);

const FunctionSpec& spec_of(const StoredFunction& f, int revision);

}  // namespace sluice::control
