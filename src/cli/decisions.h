// Decisions for `get decisions`, `describe` and `events`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/session.h"

namespace sluice::cli {

// Returns the newest `limit` of a function, of the session's namespace, or (neither given) of all;
// newest first. Those of a namespace are searched among the newest `searched` of all. Returns
// kNotFound if there never was such a function; the error says so of a program of `sluice run`.
Result<nlohmann::json> decisions_of(const Session& session, const std::string& function, int limit,
                                    int searched = 10'000);

// Prints them a line each, newest last, and with `follow` new ones until a signal ends this
// process.
Result<void> stream_decisions(const Session& session, const std::string& function, int limit,
                              bool follow);

// Returns whether a program of `sluice run` has that name; false if no platform runs.
bool is_program(const Session& session, const std::string& name);

// Returns the ids of rows of instances or devices.
std::vector<std::string> ids_of(const nlohmann::json& rows);

}  // namespace sluice::cli
