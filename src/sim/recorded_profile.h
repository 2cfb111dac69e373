// Profiles that were measured elsewhere, as a simulation asks them.
#pragma once

#include <string>

#include "base/result.h"
#include "control/profiles.h"

namespace sluice::sim {

// Reads lines "batch,SM %,seconds per batch" with or without more fields; a file that ends in .json
// is a profile as `sluice profile` prints it. Only points and memory are set. Returns kInvalid with
// the file, the line and what is allowed.
Result<control::Profile> read_profile(const std::string& path);

}  // namespace sluice::sim
