// How two command lines of one program differ, in words: for who meets a process that somebody
// else started. Pure.
#pragma once

#include <string>
#include <vector>

namespace sluice::cli {

// Both are PROGRAM SUBCOMMAND (--FLAG VALUE)…. "--policy fixed (not has-gpu), no --tls-cert
// (x.pem)": what runs, and what is wanted. Empty: nothing differs.
std::string flags_that_differ(const std::vector<std::string>& running,
                              const std::vector<std::string>& wanted);

}  // namespace sluice::cli
