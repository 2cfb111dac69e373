// What a platform recorded, as JSON: for `sluice simulate --from-store` elsewhere. On the loop's
// thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "control/control.h"

namespace sluice::control {

// Returns a page of it: each inference function's newest specification, without its token, with its
// arrivals by the minute. `after`: "default/f", whose followers it begins with; empty: the first.
// "next" is the `after` of the next page. The last page has none, and has the profiles.
//
// Two weeks of one function are 80 KB, and there may be thousands. A page of them costs the loop
// some ten milliseconds.
nlohmann::json history(const Control& control, const std::string& after = "");

}  // namespace sluice::control
