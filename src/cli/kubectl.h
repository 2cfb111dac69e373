// Runs kubectl, which commands on a cluster use for what the controller does not do: what a user
// may do with it is the cluster's to decide.
//
// One thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/session.h"

namespace sluice::cli {

// Returns what `kubectl WORDS…` printed, with `input` as its input. Its stderr is this process's.
// kNotFound: there is no kubectl; kInternal: it failed.
Result<std::string> kubectl(const Session& session, std::vector<std::string> words,
                            const std::string& input = "");

// Runs a program, found as a shell finds it, until it ends. Returns its exit code.
Result<int> run_program(std::vector<std::string> words, int in, int out);

}  // namespace sluice::cli
