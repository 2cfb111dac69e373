// RouteVersions: the table of routes that the API server has, under versions of its own, and which
// instances a gateway that is behind may still give requests.
//
// Gateways fetch the routes by themselves, each at its own time. So a table that the loop gives is
// accepted at once. Until a gateway has the change by which an instance gets no more requests, the
// instance counts as busy there, and is not drained.
//
// Plain state. One thread, the loop's.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "control/cluster.h"

namespace sluice::control {

// Returns every instance that there is.
using AllInstances = std::function<std::set<InstanceId>()>;

class RouteVersions {
 public:
  // `floor`: the least version to begin with. Versions must not go back when another controller
  // takes over, so it is the wall clock's milliseconds.
  explicit RouteVersions(int64_t floor) : floor_(floor) {}

  // A gateway has this version.
  void see(int64_t gateway) { newest_ = std::max(newest_, gateway); }
  // Returns the change to write; nothing if these are the routes that are written. The first
  // change, and one after a gateway had a later version, are whole tables.
  std::optional<RoutingChange> take(const RoutingTable& table);
  int64_t version() const { return written_.version; }  // 0: nothing is written

  // Returns the instances to which a gateway of that version may still give requests, though the
  // newest table does not. Calls `all` only if the gateway's table is an unknown one.
  std::set<InstanceId> still_routed(int64_t gateway, const AllInstances& all) const;
  // All gateways have at least this version.
  void all_have(int64_t version);

 private:
  void note_left(const RoutingChange& change, const RoutingTable& before);

  const int64_t floor_;
  int64_t newest_ = 0;    // of gateways
  RoutingTable written_;  // as the API server is to have it
  int64_t whole_ = 0;     // the version of the last whole table: what was before is not known
  std::set<InstanceId> routed_;         // that written_ gives requests
  std::map<InstanceId, int64_t> left_;  // since which version an instance gets none
};

}  // namespace sluice::control
