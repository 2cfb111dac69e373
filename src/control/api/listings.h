// The API's answers to GET: rows of the control loop's state, as JSON (docs/api.md). While the node
// daemon or the gateway does not answer, they show its last report, `stale_ms` old. They only read;
// on the loop's thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "control/control.h"

namespace sluice::control {

nlohmann::json to_json(const Decision& decision);

// Returns one row of `get functions`, which is also all of `describe`; latencies and violations of
// the last minute.
nlohmann::json function_row(const Control& control, const FunctionName& name, UnixMillis wall);
nlohmann::json function_rows(const Control& control, UnixMillis wall);
// Returns rows with what a status shows of each function: a part of the fields, of its last
// decision the summary. They cost a small part of function_rows().
nlohmann::json brief_function_rows(const Control& control, UnixMillis wall);
// `of`: a function's name, empty for all.
nlohmann::json revision_rows(const Control& control, const std::string& of);
nlohmann::json instance_rows(const Control& control, UnixMillis wall);
nlohmann::json device_rows(const Control& control, UnixMillis wall);
// Returns whether nodes and gateways answer, and the platform's policy.
nlohmann::json status(const Control& control);
// Returns requests, latencies and costs of each function since its creation.
nlohmann::json report(const Control& control);

}  // namespace sluice::control
