// JSON as YAML for people: blocks, short lists in one line, quotes where a text needs them. Pure.
#pragma once

#include <string>

#include "control/spec/function_schema.h"

namespace sluice::control {

std::string schema_yaml(const Schema& value);

}  // namespace sluice::control
