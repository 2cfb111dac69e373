// The serving history of a function: its revisions that have served, in the order in which they
// began. `rollback` goes back along it, so that neither an abandoned canary nor a revision that
// never started gets the traffic. Plain values. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace sluice::control {

struct StoredFunction;

// The last one serves, once it has an instance. A history from before it was kept begins with
// kNotKnown.
using ServingHistory = std::vector<int>;
inline constexpr int kNotKnown = 0;
inline constexpr size_t kMostServed = 20;  // twice the revisions that are kept

// Returns the history once that revision serves.
ServingHistory with_serving(ServingHistory served, int revision);
// Returns the history once a user went back to that revision: those that served after it are no
// more to go back to. Without it in the history, the history itself.
ServingHistory back_to(ServingHistory served, int revision);

struct ServedBefore {
  int revision = 0;
  bool assumed = false;  // the history is not known: the one before the newest
};
// Returns the revision that served before the newest one: the serving one during a rollout, a
// canary, or after a failed rollout. nullopt: none that is kept has served.
std::optional<ServedBefore> served_before(const StoredFunction& f);

}  // namespace sluice::control
