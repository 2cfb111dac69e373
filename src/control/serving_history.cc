#include "control/serving_history.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "control/desired_state.h"

namespace sluice::control {

ServingHistory with_serving(ServingHistory served, int revision) {
  std::erase(served, revision);
  served.push_back(revision);
  if (served.size() > kMostServed) served.erase(served.begin());
  return served;
}

ServingHistory back_to(ServingHistory served, int revision) {
  const auto found = std::ranges::find(served, revision);
  if (found != served.end()) served.erase(std::next(found), served.end());
  return served;
}

std::optional<ServedBefore> served_before(const StoredFunction& f) {
  if (f.serving != f.newest) return ServedBefore{f.serving};
  for (auto served = f.served.rbegin(); served != f.served.rend(); ++served) {
    const int number = *served;
    if (number == f.newest) continue;
    if (std::ranges::find(f.revisions, number, &Revision::number) != f.revisions.end())
      return ServedBefore{number};
    if (number != kNotKnown) continue;  // forgotten since
    for (auto r = f.revisions.rbegin(); r != f.revisions.rend(); ++r)
      if (r->number < f.newest) return ServedBefore{r->number, true};
  }
  return std::nullopt;
}

}  // namespace sluice::control
