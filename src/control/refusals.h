// Errors for actions that the loop does not execute, for the journal. Pure.
#pragma once

#include "base/result.h"
#include "model/action.h"

namespace sluice::control {

// Names the action and what is missing.
// REQUIRES: `what` is a StartGang, MoveInstance, Loan or SetTraining
Error refusal_of(const Wanted& what);
// Returns the subject of such an action: an instance, a device, or the function.
std::string subject_of(const Action& action);

}  // namespace sluice::control
