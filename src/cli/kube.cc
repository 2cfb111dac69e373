// `sluice kube`: what a cluster runs of Sluice, and what it is told of it.
#include "cli/kube.h"

#include <CLI/CLI.hpp>

namespace sluice::cli {

void add_kube(CLI::App& app, Outcome& outcome) {
  CLI::App* kube = app.add_subcommand("kube", "on Kubernetes: the platform's parts");
  kube->require_subcommand(1);
  add_kube_agent(*kube, outcome);
  add_kube_controller(*kube, outcome);
  add_kube_crds(*kube, outcome);
  add_kube_fetch(*kube, outcome);
  add_kube_gateway(*kube, outcome);
  add_kube_measure(*kube, outcome);
}

}  // namespace sluice::cli
