// `sluice gateway`, the front door's process.
#pragma once

#include <CLI/App.hpp>

#include "base/result.h"

namespace sluice::cli {

// Adds the subcommand; when it was chosen, `outcome` is what became of it.
void add_gateway_command(CLI::App& app, Result<void>& outcome);

}  // namespace sluice::cli
