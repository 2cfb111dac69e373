#include "routing/route.h"

namespace sluice::policy {

std::span<const Route> routes() {
  static constexpr Route kRoutes[] = {
      {"weighted", "in proportion to capability", route_weighted},
      {"least_work", "to the instance that would be done soonest", route_least_work},
      {"round_robin", "to each in turn", route_round_robin},
      {"least_outstanding", "to the instance with the fewest requests outstanding",
       route_least_outstanding},
      {"service_rate", "in proportion to the measured service rate; large requests to strong ones",
       route_service_rate},
  };
  return kRoutes;
}

const Route* find_route(std::string_view name, std::span<const Route> among) {
  for (const Route& route : among) {
    if (route.name == name) return &route;
  }
  return nullptr;
}

}  // namespace sluice::policy
