// The routing table that the control loop sends to a gateway. Plain values;
// `wire/json/routing_json.h` has their only form on the wire and in the gateway's file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/function.h"

namespace sluice {

struct RevisionPercent {
  int revision = 0;
  int percent = 0;

  bool operator==(const RevisionPercent&) const = default;
};

struct InstanceRoute {
  std::string id;
  int revision = 0;
  std::string socket;     // "unix:/path" or "host:port"
  int credit = 1;         // requests it may have at once
  int batch = 1;          // requests it takes at a time, when that much credit is free
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
  std::string token;        // callers must bear it; empty: any caller
  std::string unavailable;  // why no instance can start; empty: wait for one
  std::string route = "weighted";
  bool http = false;  // its instances answer any path, below /functions/SERVED/
  std::vector<RevisionPercent> split;
  std::vector<InstanceRoute> instances;

  bool operator==(const FunctionRoute&) const = default;
};

struct RoutingTable {
  int64_t version = 0;
  std::map<std::string, FunctionRoute> functions;  // by served_name()

  bool operator==(const RoutingTable&) const = default;
};

// What changed from one version of the table to another.
struct RoutingChange {
  int64_t since = 0;  // holds for a gateway that has this version, and for no other
  int64_t version = 0;
  std::map<std::string, FunctionRoute> changed;  // new ones too, each whole
  std::vector<FunctionName> removed;

  bool operator==(const RoutingChange&) const = default;
};

RoutingChange change_between(const RoutingTable& before, const RoutingTable& after);
// REQUIRES: table.version == change.since.
void apply(RoutingTable& table, const RoutingChange& change);

}  // namespace sluice
