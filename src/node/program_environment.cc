#include "node/program_environment.h"

namespace sluice::node {

ProgramEnvironment environment_on(const Device& device, const std::string& permit_socket) {
  ProgramEnvironment e{.preload = {"libsluice_gate.so"},
                       .variables = {{"SLUICE_PERMIT_SOCKET", permit_socket}}};
  if (device.kind == DeviceKind::kCuda) {
    e.preload = {"libsluice_cuda.so", "libsluice_nvml.so"};
    e.variables["CUDA_VISIBLE_DEVICES"] = device.uuid;
    e.variables["SLUICE_VISIBLE_DEVICES"] = device.uuid;  // NVML does not go by CUDA's
  }
  return e;
}

}  // namespace sluice::node
