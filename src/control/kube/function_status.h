// The status of a user's object, as `kubectl get` and `describe` show it: from the row that the API
// has of the function, and from what became of the object's specification. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace sluice::control {

// What became of a generation of an object.
struct Applying {
  int64_t generation = 0;
  bool accepted = false;
  std::string why;  // it was refused, or waits
};

// `row`: of function_row(); null: the loop does not know the function. `before`: the status as it
// is now; a condition that stays keeps its time.
nlohmann::json status_of(const nlohmann::json& row, const Applying& applying,
                         const nlohmann::json& before, UnixMillis wall);
// Whether they differ in more than rates and latencies, which may be written a little later.
bool differ_in_state(const nlohmann::json& a, const nlohmann::json& b);

// An Event about a function's object. `count_key`: equal Events have equal names, and are one.
nlohmann::json event_of(const nlohmann::json& decision, const std::string& uid,
                        const std::string& kind, UnixMillis wall);

}  // namespace sluice::control
