// The listing of functions, one line each: for `get functions`, `top` and the quickstart. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/table.h"

namespace sluice::cli {

std::string functions_table(const nlohmann::json& list);  // rows of GET /v1/functions

}  // namespace sluice::cli
