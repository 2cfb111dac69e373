#include "node/program_environment.h"

namespace sluice::node {

ProgramEnvironment environment_on(const Device& device, const std::string& permit_socket) {
  ProgramEnvironment e{.gate = "libsluice_gate.so",
                       .variables = {{"SLUICE_PERMIT_SOCKET", permit_socket}}};
  if (device.kind == DeviceKind::kCuda) {
    e.gate = "libsluice_cuda.so";
    e.variables["CUDA_VISIBLE_DEVICES"] = device.uuid;
  }
  return e;
}

}  // namespace sluice::node
