// The API's answers about nodes and about jobs' plans, as JSON (docs/api.md). They only read; on
// the loop's thread.
#pragma once

#include <nlohmann/json.hpp>

#include "control/control.h"

namespace sluice::control {

// Returns a row for each node: its devices, its virtual cluster, and which one uses it.
nlohmann::json node_rows(const Control& control, UnixMillis wall);

// Returns {"jobs": […], "boards": […]}: of each job that is not over its plan, where its workers
// are, what it is waiting for and when it should end; of each planner with a board, the devices
// that are held on each node in the coming rounds, and their price.
nlohmann::json plan_rows(const Control& control, UnixMillis wall);

// Returns {"checkpoints": […], "trouble": "…"} of a job, by step.
nlohmann::json checkpoint_rows(const Control& control, const FunctionName& f);

}  // namespace sluice::control
