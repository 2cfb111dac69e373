// Scenario files, as users write them: YAML, the first document a Scenario, the others functions in
// the form of a function file. docs/simulator.md describes every field. A file is taken whole or
// not at all, and every problem is named at once: file, line, field, value, and what is allowed.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/scenario.h"

namespace sluice::sim {

// `file` names the text in messages; relative paths in it are taken from `folder`. Errors are
// kInvalid: one line per problem. `store`: in place of the file's; empty: not given.
Result<Scenario> parse_scenario(std::string_view text, const std::string& file,
                                const std::string& folder, const std::string& store = "");

}  // namespace sluice::sim
