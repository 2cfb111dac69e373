// The environment that a foreign program under a slice needs, so that it asks for permits and sees
// its parts of its devices, and no others. Free functions; any thread.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/device.h"

namespace sluice::node {

using Variables = std::map<std::string, std::string>;

struct ProgramEnvironment {
  std::vector<std::string> preload;  // library files; the first asks for the permits
  // Folders beside these, which the loader is to search first.
  std::vector<std::string> library_path;
  Variables variables;
};

// Where a program finds its first device's servers. Absent: there is no such server.
struct DeviceServices {
  std::optional<std::string> mps_pipes;    // the GPU's MPS server, for a client of it
  std::optional<std::string> model_store;  // the socket of the GPU's model store
};

// `devices`: that it sees, at least one; several are GPUs. `slice`: of the first.
ProgramEnvironment environment_on(const std::vector<Device>& devices, const Slice& slice,
                                  const std::string& permit_socket, const DeviceServices& services);

// Returns `variables` with the environment's additions: its libraries and folders, which lie in
// `folder`, before those that the loader has already; its variables in place of others. Returns
// kInternal if one of its files is missing.
Result<Variables> with_environment(Variables variables, const ProgramEnvironment& environment,
                                   const std::filesystem::path& folder);

// Returns this process's own variables.
Variables own_variables();
// Returns them as execve() takes them.
std::vector<std::string> as_words(const Variables& variables);

}  // namespace sluice::node
