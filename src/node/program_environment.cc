#include "node/program_environment.h"

namespace sluice::node {
namespace {

constexpr Bytes kMebibyte = Bytes{1} << 20;

// A client's limits are read once, when its first context is made. The memory's is each process's
// own and counts what the driver takes for itself; the slice's is the ledger's, through the hook.
// Where SMs may change while it runs, the hook alone holds it to them: green contexts of a client
// that MPS confines as well may run on all that MPS gives it.
void confine_by_mps(const Slice& slice, bool live_sm, const std::string& pipes,
                    std::map<std::string, std::string>& variables) {
  variables["CUDA_MPS_PIPE_DIRECTORY"] = pipes;
  if (!live_sm)
    variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = std::to_string(slice.sm.permille / 10);
  if (slice.memory > 0)
    variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] =
        "0=" + std::to_string((slice.memory + kMebibyte - 1) / kMebibyte) + "M";
}

}  // namespace

ProgramEnvironment environment_on(const Device& device, const Slice& slice,
                                  const std::string& permit_socket,
                                  const DeviceServices& services) {
  ProgramEnvironment e{.preload = {"libsluice_gate.so"},
                       .library_path = {},
                       .variables = {{"SLUICE_PERMIT_SOCKET", permit_socket}}};
  if (device.kind == DeviceKind::kCuda) {
    e.preload = {"libsluice_cuda.so", "libsluice_nvml.so"};
    e.library_path = {"driver"};  // for names that no preloaded library has, as libcuda.so
    e.variables["CUDA_VISIBLE_DEVICES"] = device.uuid;
    e.variables["SLUICE_VISIBLE_DEVICES"] = device.uuid;  // NVML does not go by CUDA's
    if (services.mps_pipes)
      confine_by_mps(slice, device.can_resize_sm, *services.mps_pipes, e.variables);
    if (device.can_resize_sm) e.variables["SLUICE_LIVE_SM"] = "1";
    if (services.model_store) e.variables["SLUICE_MODEL_STORE"] = *services.model_store;
  }
  return e;
}

}  // namespace sluice::node
