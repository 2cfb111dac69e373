// `sluice node`, the node daemon.
#pragma once

#include <CLI/App.hpp>

#include "base/result.h"

namespace sluice::cli {

// Adds the subcommand; if it was chosen, `outcome` is its result.
void add_node_command(CLI::App& app, Result<void>& outcome);

}  // namespace sluice::cli
