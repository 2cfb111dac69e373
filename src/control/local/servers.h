// Servers: this machine's devices in groups, each a node to the loop and its policies, as on a
// cluster. Of inference's virtual cluster, of training's, or of none (policy/loans.h). Plain
// values.
#pragma once

#include <string>

#include "control/cluster.h"

namespace sluice::control {

struct Servers {
  int inference = 0, training = 0;  // virtual clusters
  int both = 0;                     // of none

  int all() const { return inference + training + both; }
  bool operator==(const Servers&) const = default;
};

// Reads "4" or "inference=2,training=2"; empty: none, the machine is one node.
Result<Servers> servers_from(const std::string& text);

// Divides the observation's only node: devices go to servers in order, equally many to each, first
// to inference's. There are at most as many servers as devices. Does nothing without servers.
void divide(const Servers& servers, Observation& observation);

}  // namespace sluice::control
