#include "policy/plan/fapes_order.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace sluice::policy {

std::vector<size_t> fapes_order(std::span<const FapesClaim> claims, double pop_up) {
  const auto rank = [&](size_t i) {
    const FapesClaim& c = claims[i];
    const bool popped_up = !c.is_new && c.waited >= pop_up;
    const int group = popped_up ? 0 : c.is_new ? 1 : 2;
    const double first = group == 2 ? c.achievement : c.waited;
    return std::tuple(-c.priority, group, -first, -c.age);
  };
  std::vector<size_t> order(claims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, rank);
  return order;
}

}  // namespace sluice::policy
