// The routing table: what the control loop tells the gateway (docs/design/processes.md). Plain
// values; parsing is strict, names field and value, and takes a whole table or nothing.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/function.h"
#include "policy/route_split.h"

namespace sluice::gateway {

struct InstanceRoute {
  std::string id;
  int revision = 0;
  std::string socket;     // "unix:/path" or "host:port"
  int credit = 1;         // requests it may have at once
  int batch = 1;          // how many it takes at a time; a new wave when that much credit is free
  double capability = 0;  // inferences per second
  bool ready = false;     // false: starting or draining, gets nothing

  bool operator==(const InstanceRoute&) const = default;
};

struct FunctionRoute {
  FunctionName name;
  Nanos slo{0};  // 0: none; then the deadline is the timeout
  Nanos timeout = Seconds(60);
  int max_queue = 1000;
  bool admit_all = false;   // queue also what cannot be in time
  std::string token;        // callers must bear it; empty: anybody
  std::string unavailable;  // why no instance can start; empty: wait for one
  std::string route = "weighted";
  std::vector<policy::RevisionPercent> split;
  std::vector<InstanceRoute> instances;

  bool operator==(const FunctionRoute&) const = default;
};

struct RoutingTable {
  int64_t version = 0;
  std::map<std::string, FunctionRoute> functions;  // by served_name()

  bool operator==(const RoutingTable&) const = default;
};

Result<RoutingTable> table_from(const nlohmann::json&);
nlohmann::json to_json(const RoutingTable&);

}  // namespace sluice::gateway
