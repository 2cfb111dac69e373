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
  // Folders beside these, where the loader is to look first.
  std::vector<std::string> library_path;
  std::map<std::string, std::string> variables;
};

// Where a program finds what serves its device. Absent: it is not served so.
struct DeviceServices {
  std::optional<std::string> mps_pipes;    // the GPU's MPS server, for a client of it
  std::optional<std::string> model_store;  // the socket of the GPU's model store
};

ProgramEnvironment environment_on(const Device& device, const Slice& slice,
                                  const std::string& permit_socket, const DeviceServices& services);

}  // namespace sluice::node
