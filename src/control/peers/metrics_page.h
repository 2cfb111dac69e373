// A program's own page of metrics, in Prometheus' text format, and what it says under Triton's
// names. The page is a user's program's, so it may hold anything. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "control/cluster.h"

namespace sluice::control {

// Returns the counters, each summed over its labels; nothing if the page has no inference count.
// Lines that are no sample, and values that no counter can have (NaN, negative, above 10¹⁸), are
// passed over.
std::optional<ProgramCounts> program_counts_from(std::string_view page);

}  // namespace sluice::control
