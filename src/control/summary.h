// summary: a decision in a few words, for a column: "started (one always stays)". Pure.
#pragma once

#include <string>

#include "control/journal.h"

namespace sluice::control {

// Returns what happened, and why. A rule without words here is shown by its name.
std::string summary(const Decision& decision);

}  // namespace sluice::control
