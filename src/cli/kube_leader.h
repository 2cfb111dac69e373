// What a controller runs while it leads: the control loop over the API server, its API and the
// admission webhook behind TLS fronts, and the operator.
#pragma once

#include <functional>
#include <string>

#include "cli/kube_client.h"
#include "control/control.h"

namespace sluice::cli {

struct LeaderSettings {
  std::string data;   // its history and copies of models
  std::string image;  // of functions' Pods
  std::string listen, webhook_listen;
  control::ControlSettings control;
};

// Runs until SIGTERM or SIGINT. `leads`: asked before each write. Coroutines of `kube` go on after
// it, so the process is to end soon.
Result<void> lead(const LeaderSettings& settings, KubeThread& kube, const Clock& clock,
                  std::function<bool()> leads);

}  // namespace sluice::cli
