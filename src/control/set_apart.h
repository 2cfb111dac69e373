// Stored functions that the loop sets apart: their stored state cannot be read, or could not have
// come about. The loop goes on without them, leaves their instances as they are, and names them.
// Pure.
#pragma once

#include <map>
#include <string>

#include "control/desired_state.h"

namespace sluice::control {

struct SetApart {
  std::string why;    // a sentence without its end
  int last = 0;       // the largest number of a stored revision
  bool said = false;  // recorded as a decision
};
using FunctionsApart = std::map<FunctionName, SetApart>;

// Returns what of the stored function makes it impossible; empty: nothing does.
std::string fault_of(const StoredFunction& f);

// Returns kInvalid if clients would call two functions by one path: a.b of the default namespace,
// and b of the namespace a.
Result<void> check_path(const FunctionName& name, const FunctionName& other);

// Returns why it is set apart and what a user can do, in sentences.
std::string said_of(const SetApart& apart);

}  // namespace sluice::control
