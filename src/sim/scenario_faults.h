// The faults of a scenario file: what happens when to which function, device, node or gateway.
#pragma once

#include "sim/scenario.h"
#include "sim/scenario_fields.h"

namespace sluice::sim {

// Reads spec.faults into a scenario whose functions, jobs and devices are known.
void read_faults(const ScenarioPart& spec, Scenario& out);

}  // namespace sluice::sim
