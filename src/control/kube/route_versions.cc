#include "control/kube/route_versions.h"

#include <algorithm>
#include <utility>

namespace sluice::control {
namespace {

void add_routed(const FunctionRoute& route, std::set<InstanceId>& ids) {
  for (const InstanceRoute& i : route.instances)
    if (i.ready) ids.insert(i.id);
}

}  // namespace

std::optional<RoutingChange> RouteVersions::take(const RoutingTable& table) {
  const bool whole = written_.version == 0 || newest_ > written_.version;
  if (!whole && table.functions == written_.functions) return std::nullopt;
  const RoutingTable before = std::move(written_);
  written_ = {std::max({before.version + 1, newest_ + 1, floor_}), table.functions};
  if (!whole) {
    RoutingChange change = change_between(before, written_);
    note_left(change, before);
    return change;
  }
  whole_ = written_.version;
  left_.clear();
  routed_.clear();
  for (const auto& [served, route] : written_.functions) add_routed(route, routed_);
  return RoutingChange{.since = 0, .version = whole_, .changed = written_.functions, .removed = {}};
}

void RouteVersions::note_left(const RoutingChange& change, const RoutingTable& before) {
  std::set<InstanceId> then, now;
  const auto add_before = [&](const std::string& served) {
    const auto route = before.functions.find(served);
    if (route != before.functions.end()) add_routed(route->second, then);
  };
  for (const auto& [served, route] : change.changed) {
    add_before(served);
    add_routed(route, now);
  }
  for (const FunctionName& name : change.removed) add_before(served_name(name));
  for (const InstanceId& id : then) {
    if (now.contains(id)) continue;
    routed_.erase(id);
    left_[id] = written_.version;
  }
  for (const InstanceId& id : now) {
    routed_.insert(id);
    left_.erase(id);
  }
}

std::set<InstanceId> RouteVersions::still_routed(int64_t gateway, const AllInstances& all) const {
  std::set<InstanceId> ids;
  for (const auto& [id, since] : left_)
    if (since > gateway) ids.insert(id);
  if (gateway < whole_) std::ranges::set_difference(all(), routed_, std::inserter(ids, ids.end()));
  return ids;
}

void RouteVersions::all_have(int64_t version) {
  std::erase_if(left_, [&](const auto& left) { return left.second <= version; });
}

}  // namespace sluice::control
