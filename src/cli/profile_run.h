// Measures a model on this machine: one instance, started beside the control loop on a free device,
// through every point of batch × sm × quota. The instance is the real one behind its real gate:
// what is measured is what will be served.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/function.h"
#include "predict/profile_table.h"
#include "wire/http.h"

namespace sluice::cli {

struct Sweep {
  std::vector<int> batches{1, 2, 4, 8};
  std::vector<Share> quotas{{1000}, {700}, {400}, {200}, {100}};
  Nanos per_point = Millis(1000);  // at least, and at least three batches
};

// `node_socket`: the daemon's. `spec` has its signature (check_model). kExhausted: no device is
// wholly free. `progress` is told each point.
Result<predict::Profile> profile_model(
    const std::string& node_socket, const FunctionSpec& spec, const Sweep& sweep,
    const std::function<void(const predict::ProfilePoint&)>& progress);

}  // namespace sluice::cli
