// Decisions as `get decisions`, `describe` and `events` ask for them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/session.h"

namespace sluice::cli {

// The newest `limit` of a function, of the session's namespace, or (neither given) of all; newest
// first. Those of a namespace are looked for among the newest `searched` of all. kNotFound: there
// is no such function, and there never was one.
Result<nlohmann::json> decisions_of(const Session& session, const std::string& function, int limit,
                                    int searched = 10'000);

// Prints them a line each, newest last, and with `follow` those that come until a signal ends us.
Result<void> stream_decisions(const Session& session, const std::string& function, int limit,
                              bool follow);

// The ids of rows of instances or devices.
std::vector<std::string> ids_of(const nlohmann::json& rows);

}  // namespace sluice::cli
