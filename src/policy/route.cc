#include "policy/route.h"

namespace sluice::policy {

std::span<const Route> routes() {
  static constexpr Route kRoutes[] = {
      {"weighted", "in proportion to capability", route_weighted},
      {"least_work", "to the instance that would be done soonest", route_least_work},
  };
  return kRoutes;
}

const Route* find_route(std::string_view name) {
  for (const Route& route : routes()) {
    if (route.name == name) return &route;
  }
  return nullptr;
}

}  // namespace sluice::policy
