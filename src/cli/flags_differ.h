// Describes how two command lines of one program differ, for a supervisor that adopts a process of
// another one. Pure.
#pragma once

#include <string>
#include <vector>

namespace sluice::cli {

// Both are PROGRAM SUBCOMMAND (--FLAG VALUE)…. Returns "--policy fixed (not has-gpu), no --tls-cert
// (x.pem)": the running value, and the wanted one. Empty if nothing differs.
std::string flags_that_differ(const std::vector<std::string>& running,
                              const std::vector<std::string>& wanted);

}  // namespace sluice::cli
