// What a node daemon reports: its answer to GET /v1/state, as a part of an observation. Pure.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "control/cluster.h"

namespace sluice::control {

struct NodeReport {
  ObservedNode node;  // without the time
  std::vector<Device> devices;
  std::map<DeviceId, DeviceLoad> loads;
  std::vector<ObservedInstance> instances;
};

// What it does not understand of a state it leaves out, and the log says so. The node has the name
// by which its devices call it, and links without their bandwidth.
NodeReport node_report_from(const nlohmann::json& state);

// Gives the node the name that its cluster has for it. A daemon calls its devices by short names,
// which are unique on its node alone: "cuda0" becomes "NODE/cuda0".
void name_in_cluster(NodeReport& report, const std::string& node);
// Returns the short name of a device of that node.
std::string name_on_node(const DeviceId& device, const std::string& node);

}  // namespace sluice::control
