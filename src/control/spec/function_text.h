// A function's specification as a text: the file that says it, and what differs between two. Pure.
#pragma once

#include <string>
#include <vector>

#include "model/function.h"

namespace sluice::control {

// Returns the specification as a file that parses to the same.
std::string to_yaml(const FunctionSpec& spec);

// Returns the differences, one line a field: "slo.latency: 80ms -> 60ms". Empty: none.
std::vector<std::string> difference(const FunctionSpec& before, const FunctionSpec& after);

}  // namespace sluice::control
