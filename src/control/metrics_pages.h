// The pages of metrics of the programs that serve. Pure.
#pragma once

#include <vector>

#include "control/function_state.h"

namespace sluice::control {

// Returns those of the ready instances whose revision states server.metrics, and that have a port.
std::vector<MetricsPage> metrics_pages(const Functions& functions,
                                       const std::vector<ObservedInstance>& instances);

}  // namespace sluice::control
