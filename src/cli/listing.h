// The platform's listings as tables for people: for `get`, `describe`, `top` and the quickstart.
// `list` holds rows of GET /v1/WHAT. Pure, except for ages, which depend on the current time.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/table.h"

namespace sluice::cli {

// `what` is "functions", "jobs", "revisions", "instances", "devices", "profiles" or "decisions".
std::string listing(const std::string& what, const nlohmann::json& list);
std::string functions_table(const nlohmann::json& list);  // inference functions
std::string jobs_table(const nlohmann::json& list);       // training functions

// Explains the columns of a listing, a line each; for `sluice get WHAT --help`.
std::string legend(const std::string& what);

// Returns a decision as a line: "12:03:59  default/f  resize f-1-x: 20% -> 40%. …".
std::string decision_line(const nlohmann::json& decision);

// Returns a function's name as commands take it: without the default namespace.
std::string short_name(const nlohmann::json& function);

// Returns a row for each part of each instance, with that part's device, slice and position. Each
// of an instance's rows has its whole use and holdings.
nlohmann::json by_part(const nlohmann::json& instances);

// Returns whether a program of `sluice run` used more than a tenth above its limit in the last
// second.
bool above_limit(const nlohmann::json& instance);

}  // namespace sluice::cli
