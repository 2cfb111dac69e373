// What the API answers to GET: rows of what the control loop knows, as JSON (docs/api.md). While
// the node daemon or the gateway does not answer, that is what it last said, `stale_ms` ago. They
// read and change nothing; on the loop's thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "control/control.h"

namespace sluice::control {

nlohmann::json to_json(const Decision& decision);

// One row of `get functions`, and the whole of `describe`; latencies and violations of the last
// minute.
nlohmann::json function_row(const Control& control, const FunctionName& name, UnixMillis wall);
nlohmann::json function_rows(const Control& control, UnixMillis wall);
// `of`: a function's name, empty for all.
nlohmann::json revision_rows(const Control& control, const std::string& of);
nlohmann::json instance_rows(const Control& control, UnixMillis wall);
nlohmann::json device_rows(const Control& control, UnixMillis wall);
// Requests, latencies and costs of each function since it was made.
nlohmann::json report(const Control& control);

}  // namespace sluice::control
