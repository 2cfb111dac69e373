#include "node/program_environment.h"

#include <unistd.h>

namespace sluice::node {
namespace {

constexpr Bytes kMebibyte = Bytes{1} << 20;

// A client's limits are read once, when its first context is made. The memory's is each process's
// own and counts what the driver takes for itself; the slice's is the ledger's, through the hook.
void confine_by_mps(const Slice& slice, const std::string& pipes, Variables& variables) {
  variables["CUDA_MPS_PIPE_DIRECTORY"] = pipes;
  variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = std::to_string(slice.sm.permille / 10);
  if (slice.memory > 0)
    variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] =
        "0=" + std::to_string((slice.memory + kMebibyte - 1) / kMebibyte) + "M";
}

std::string uuids_of(const std::vector<Device>& devices) {
  std::string all;
  for (const Device& d : devices) all += (all.empty() ? "" : ",") + d.uuid;
  return all;
}

Result<void> put_in_front(const std::vector<std::string>& names,
                          const std::filesystem::path& folder, std::string& list) {
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const std::string path = folder / *name;
    std::error_code unknown;
    if (!std::filesystem::exists(path, unknown))
      return Error{ErrorKind::kInternal,
                   path + ": missing: without it a program is not held to its slice"};
    list = list.empty() ? path : path + ":" + list;
  }
  return {};
}

}  // namespace

ProgramEnvironment environment_on(const std::vector<Device>& devices, const Slice& slice,
                                  const std::string& permit_socket,
                                  const DeviceServices& services) {
  ProgramEnvironment e{.preload = {"libsluice_gate.so"},
                       .library_path = {},
                       .variables = {{"SLUICE_PERMIT_SOCKET", permit_socket}}};
  if (devices.front().kind == DeviceKind::kCuda) {
    e.preload = {"libsluice_cuda.so", "libsluice_nvml.so"};
    e.library_path = {"driver"};  // for names that no preloaded library has, such as libcuda.so
    const std::string uuids = uuids_of(devices);
    e.variables["CUDA_VISIBLE_DEVICES"] = uuids;
    e.variables["SLUICE_VISIBLE_DEVICES"] = uuids;  // NVML does not go by CUDA's
    if (services.mps_pipes) confine_by_mps(slice, *services.mps_pipes, e.variables);
    if (services.model_store) e.variables["SLUICE_MODEL_STORE"] = *services.model_store;
  }
  return e;
}

Result<Variables> with_environment(Variables variables, const ProgramEnvironment& environment,
                                   const std::filesystem::path& folder) {
  const std::pair<const char*, const std::vector<std::string>&> lists[] = {
      {"LD_PRELOAD", environment.preload}, {"LD_LIBRARY_PATH", environment.library_path}};
  for (const auto& [name, added] : lists)
    if (!added.empty()) SLUICE_TRY(put_in_front(added, folder, variables[name]));
  for (const auto& [name, value] : environment.variables) variables.insert_or_assign(name, value);
  return variables;
}

Variables own_variables() {
  Variables variables;
  for (char** v = environ; *v != nullptr; ++v) {
    const std::string_view word(*v);
    const size_t equals = word.find('=');
    if (equals != word.npos) variables.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return variables;
}

std::vector<std::string> as_words(const Variables& variables) {
  std::vector<std::string> words;
  for (const auto& [name, value] : variables) words.push_back(name + "=" + value);
  return words;
}

}  // namespace sluice::node
