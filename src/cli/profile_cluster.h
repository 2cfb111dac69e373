// `kubectl sluice profile`: measures functions on nodes of the cluster, one of each type of device,
// in the agent's container there, and stores what was measured at the controller.
//
// One thread.
#pragma once

#include <string>
#include <vector>

#include "cli/session.h"

namespace sluice::cli {

struct ClusterProfile {
  std::vector<std::string> names;  // of functions that were applied
  std::vector<std::string> files;
  std::vector<int> quotas;         // per cent, the largest first; less where a node has less left
  std::vector<std::string> words;  // others of `sluice profile`
};

Result<void> profile_on_cluster(const Session& session, const ClusterProfile& wanted);

}  // namespace sluice::cli
