// All metrics, in Prometheus' text format, on the one endpoint GET /metrics of the API: functions
// (since their creation, over all restarts), instances and devices. Clean under `promtool check
// metrics`. On the loop's thread.
#pragma once

#include <string>

#include "control/control.h"

namespace sluice::control {

std::string metrics(const Control& control);

}  // namespace sluice::control
