// summary: a decision in a few words, for a column: "started (one always stays)". Pure.
#pragma once

#include <string>

#include "control/store.h"

namespace sluice::control {

// What happened, and why. A rule that has no words here stands for itself.
std::string summary(const Decision& decision);

}  // namespace sluice::control
