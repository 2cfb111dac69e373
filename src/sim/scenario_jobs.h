// The training jobs of a scenario file: jobModels, jobs, jobLists and training of its spec.
// docs/simulator.md describes every field.
#pragma once

#include <filesystem>

#include "sim/scenario.h"
#include "sim/scenario_fields.h"

namespace sluice::sim {

// Returns whether the spec states any.
bool has_jobs(const control::Fields& spec);

// Adds them to the scenario, whose functions, devices, duration and seed are known already. Lists
// are files of `folder`.
void read_jobs(const ScenarioPart& spec, const std::filesystem::path& folder, Scenario& out);

}  // namespace sluice::sim
