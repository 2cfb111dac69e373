// Where a Prometheus finds the programs' own metrics: the list that its http_sd_configs read. On
// the loop's thread.
#pragma once

#include <nlohmann/json.hpp>

#include "control/control.h"

namespace sluice::control {

// Returns a target for each ready instance whose revision states server.metrics, with the labels
// that the instance has in the platform's own metrics. An address is of the instance's node, so
// only a Prometheus on that node reaches it.
nlohmann::json scrape_targets(const Control& control);

}  // namespace sluice::control
