// The commands below `sluice kube`, one file each.
#pragma once

#include "cli/session.h"

namespace sluice::cli {

void add_kube_agent(CLI::App& kube, Outcome& outcome);
void add_kube_controller(CLI::App& kube, Outcome& outcome);
void add_kube_crds(CLI::App& kube, Outcome& outcome);
void add_kube_fetch(CLI::App& kube, Outcome& outcome);
void add_kube_gateway(CLI::App& kube, Outcome& outcome);
void add_kube_measure(CLI::App& kube, Outcome& outcome);

}  // namespace sluice::cli
