// Chaos: random scenarios with faults, each from a seed, and what must hold in all of them. A run
// that breaks something shrinks to a shorter one that breaks it too. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/scenario.h"

namespace sluice::sim {

// One to three types of devices, one to five functions with objectives, profiles and loads between
// nothing and overload, up to eight faults of any kind, one bundle; half a minute to two minutes.
// Devices are exact or fluids.
Scenario random_scenario(uint64_t seed);

// Plays the scenario under its first policy. Returns what did not hold; nothing if all did:
//
//   - the invariants of a run (docs/simulator.md, audit.h)
//   - the loop accepted the functions
std::optional<std::string> broken(const Scenario& scenario);

// Returns a smaller scenario of which broken() holds too: without the faults, loads and functions
// that do not matter, and as short as that happens.
// REQUIRES: broken(scenario)
Scenario shrunk(Scenario scenario);

// Returns the scenario in a few lines, for people.
std::string summary_of(const Scenario& scenario);

}  // namespace sluice::sim
