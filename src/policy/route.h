// route_*: to whom a request goes. All waiting happens in the function's queue at the gateway; an
// instance is handed a request when it has credit, so requests bind late. Four pure decisions:
//
//   RevisionSplit       which revision an arriving request belongs to      route_split.h
//   admit               whether a request is taken into the queue          route_admission.h
//   DeadlineQueue       which waiting request goes next                    route_queue.h
//   a RouteFunction     to which ready instance it goes                    below
//
// Nothing here allocates per decision, and nothing is thread-safe: one event loop owns a function's
// queue and its instance views.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "policy/route_queue.h"
#include "policy/route_split.h"

namespace sluice::policy {

// A ready instance, as the gateway sees it. `balance` is the state of `weighted`: starts at 0, and
// is nobody else's business.
struct InstanceView {
  int revision = 0;
  double capability = 0;  // inferences per second it can do; 0: unknown, counts as very little
  int credit = 0;         // requests it may still be given now
  int outstanding = 0;    // given to it and not yet answered
  int64_t balance = 0;
};

// Chooses among the instances of `revision` that have credit; returns the position in `instances`,
// nothing when there is none (the request waits). The caller then takes the credit.
using RouteFunction = std::optional<size_t> (*)(std::span<InstanceView> instances, int revision);

// In proportion to capability (H8), interleaved as evenly as whole requests allow.
std::optional<size_t> route_weighted(std::span<InstanceView> instances, int revision);

// To the one that would be done soonest: least (outstanding + 1) ÷ capability; then the more
// capable, then the first.
std::optional<size_t> route_least_work(std::span<InstanceView> instances, int revision);

struct Route {
  std::string_view name;  // "weighted", "least_work"
  std::string_view summary;
  RouteFunction choose;
};
std::span<const Route> routes();
const Route* find_route(std::string_view name);  // nullptr: there is none of that name

}  // namespace sluice::policy
