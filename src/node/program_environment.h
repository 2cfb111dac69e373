// What a foreign program under a slice has to be started with, so that it asks for permits and sees
// its part of the device that it has one of, and no other. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/device.h"

namespace sluice::node {

struct ProgramEnvironment {
  std::vector<std::string> preload;  // names of libraries' files; the first asks for the permits
  std::map<std::string, std::string> variables;
};

// `mps_pipes`: where a client of the GPU's MPS server finds it; absent: it is none.
ProgramEnvironment environment_on(const Device& device, const Slice& slice,
                                  const std::string& permit_socket,
                                  const std::optional<std::string>& mps_pipes);

}  // namespace sluice::node
