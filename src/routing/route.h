// route_*: which instance takes a request. All waiting happens in the function's queue at the
// gateway; an instance is handed a request when it has credit, so requests bind late. Four pure
// decisions:
//
//   RevisionSplit       which revision an arriving request belongs to      split.h
//   admit               whether a request is taken into the queue          admission.h
//   DeadlineQueue       which waiting request goes next                    queue.h
//   Route               which ready instance takes it                      below
//
// A Route is one line of a table: pure functions over the request that goes next, what is measured
// at the instances, and a state that the caller keeps for each function as a value.
//
// Nothing here allocates per decision, and nothing is thread-safe: one owner holds a function's
// queue, its instances' views and its state.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "routing/queue.h"
#include "routing/split.h"

namespace sluice::policy {

// The request that goes next.
struct RequestView {
  int revision = 0;
  int inferences = 0;       // that it asks for; 0: unknown
  uint64_t body_bytes = 0;  // 0: unknown, or none
  Time deadline{};

  // The bucket of its body on a scale of powers of two: n for 2ⁿ⁻¹ ≤ bytes < 2ⁿ, 0 for no byte.
  int size_class() const { return static_cast<int>(std::bit_width(body_bytes)); }
};

// An instance of the function, as its caller measures it.
struct InstanceView {
  int revision = 0;
  double capability = 0;    // predicted inferences per second; 0: unknown
  int credit = 0;           // requests that it may still take now
  int outstanding = 0;      // unanswered requests
  int inferences = 0;       // of those; a request of unknown number counts as one
  double service_rate = 0;  // measured inferences per busy second (rate.h); 0: none yet
  double late = 0;          // part of its recent answers that missed the objective (rate.h)
  Time last_answer{};       // Time{}: none yet
};

// A route's state of a function. The caller keeps it, and starts anew with another route.
struct RouteState {
  std::vector<int64_t> instances;  // one number per view, in their order; 0 for a new instance
  std::vector<double> function;    // empty at first
};

struct Route {
  std::string_view name;  // "weighted"
  std::string_view summary;

  // Returns the position of the instance that takes the request: of its revision, with credit. The
  // caller then takes the credit. Nothing: the request waits, and those behind it with it.
  // REQUIRES: state.instances has one number per instance.
  std::optional<size_t> (*choose)(const RequestView& request,
                                  std::span<const InstanceView> instances, RouteState& state,
                                  Time now);

  // Returns whether the instance at that position takes the request now that its credit has come
  // back. If false, choose() decides. nullptr: instances pull nothing.
  // REQUIRES: it is of the request's revision and has credit.
  bool (*pull)(const RequestView& head, std::span<const InstanceView> instances, size_t puller,
               RouteState& state, Time now) = nullptr;
};

// In proportion to capability (HAS-GPU's load balancing), interleaved as evenly as whole requests
// allow. An unknown capability counts as very little.
std::optional<size_t> route_weighted(const RequestView& request,
                                     std::span<const InstanceView> instances, RouteState& state,
                                     Time now);

// Chooses the instance that would be done soonest: least (outstanding + 1) ÷ capability; then the
// more capable, then the first.
std::optional<size_t> route_least_work(const RequestView& request,
                                       std::span<const InstanceView> instances, RouteState& state,
                                       Time now);

// In turn, in the order of the instances; those without credit lose their turn. Instances that join
// or leave do not change the turns of the others.
std::optional<size_t> route_round_robin(const RequestView& request,
                                        std::span<const InstanceView> instances, RouteState& state,
                                        Time now);

// Chooses the instance with the fewest requests outstanding, whatever its capability; of equal ones
// the one not chosen for longest, then the first.
std::optional<size_t> route_least_outstanding(const RequestView& request,
                                              std::span<const InstanceView> instances,
                                              RouteState& state, Time now);

// In proportion to the measured service rate, counted in inferences; large requests to strong
// devices (SMIF §4.5). See service_rate.cc. Until it is measured, an instance counts as predicted.
// An instance whose answers are late takes fewer requests while another one keeps the objective.
std::optional<size_t> route_service_rate(const RequestView& request,
                                         std::span<const InstanceView> instances, RouteState& state,
                                         Time now);

std::span<const Route> routes();
// Returns nullptr if there is none of that name.
const Route* find_route(std::string_view name, std::span<const Route> among = routes());

}  // namespace sluice::policy
