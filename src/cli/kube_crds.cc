// `sluice kube crds`: prints the definitions of our kinds of objects, for `kubectl apply -f -`.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/kube.h"
#include "control/spec/object_definitions.h"

namespace sluice::cli {

void add_kube_crds(CLI::App& kube, Outcome& outcome) {
  kube.add_subcommand("crds", "print the definitions of functions, as Kubernetes takes them")
      ->callback([&outcome] {
        std::cout << control::object_definitions_yaml();
        outcome = Result<void>();
      });
}

}  // namespace sluice::cli
