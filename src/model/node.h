// A machine with devices. A plain value.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/device.h"

namespace sluice {

// What carries the bytes between two devices or two nodes, from fast to slow.
enum class LinkTier { kNvlink, kPcie, kNetwork };

struct Interconnect {
  std::string from, to;  // devices of one node, or nodes
  LinkTier tier = LinkTier::kNetwork;
  double bytes_per_second = 0;  // in one direction; 0: not known

  bool operator==(const Interconnect&) const = default;
};

struct Node {
  std::string name;  // unique in the cluster
  std::map<std::string, std::string> labels;
  std::vector<DeviceId> devices;    // in order
  std::vector<Interconnect> links;  // between its devices, and from it to other nodes
  std::string boot_id;              // another one: it was rebooted, and nothing of before runs
  bool reachable = true;            // false: the rest is what it last reported

  bool operator==(const Node&) const = default;
};

}  // namespace sluice
