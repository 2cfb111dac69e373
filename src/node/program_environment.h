// What a foreign program under a slice has to be started with, so that it asks for permits and sees
// the device that it has a part of, and no other. Pure.
#pragma once

#include <map>
#include <string>

#include "model/device.h"

namespace sluice::node {

struct ProgramEnvironment {
  std::string gate;  // file name of the library that is preloaded: it asks for the permits
  std::map<std::string, std::string> variables;
};

ProgramEnvironment environment_on(const Device& device, const std::string& permit_socket);

}  // namespace sluice::node
