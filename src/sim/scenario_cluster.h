// The cluster of a scenario file: its devices, of types with counts or of the nodes of a recorded
// list, how they are stepped, and how long instances take to start.
#pragma once

#include <filesystem>

#include "sim/scenario.h"
#include "sim/scenario_fields.h"

namespace sluice::sim {

// Reads stepping, coldStart, hop and devices of the spec. Lists of nodes are files of `folder`. The
// devices are ordered by id.
void read_cluster(const ScenarioPart& spec, const std::filesystem::path& folder, ClusterPlan& out);

}  // namespace sluice::sim
