// Launches of kernels: all calls of the driver that there are for it.
#include <algorithm>

#include "tests/emulator/capture.h"
#include "tests/emulator/launch.h"

using namespace sluice::emulator;

namespace sluice::emulator {

CUresult kernel_of(const Function& function, const CUDA_KERNEL_NODE_PARAMS_v2& launch,
                   std::uint32_t sms, bool together, Kernel& kernel) {
  const std::uint64_t threads =
      std::uint64_t{launch.blockDimX} * launch.blockDimY * launch.blockDimZ;
  const std::uint64_t plane = std::uint64_t{launch.gridDimX} * launch.gridDimY;
  if (threads == 0 || threads > 1024 || plane == 0 || launch.gridDimZ == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t blocks = std::min<std::uint64_t>(plane, ~0U) * launch.gridDimZ;
  if (together && blocks > sms) return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  kernel = function.kernel;
  kernel.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, ~0U));
  kernel.together = together;
  return CUDA_SUCCESS;
}

void expect_fault(Stream& stream, const Function& function, const DeviceModel& device) {
  if (function.fault != CUDA_SUCCESS)
    stream.context->faults.push_back({device.end_of(stream.model), function.fault});
}

}  // namespace sluice::emulator

namespace {
struct Launch {
  CUDA_KERNEL_NODE_PARAMS_v2 what;
  CUstream stream;
  bool together = false;
};

CUresult launch(const char* name, const Launch& asked, DefaultStream which) {
  Call call(name);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  Function* function = driver.functions.find(asked.what.func);
  Stream* stream = stream_of(call, asked.stream, which);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Kernel kernel;
  const std::uint32_t sms = driver.sms_of(*stream);
  CUresult result = kernel_of(*function, asked.what, sms, asked.together, kernel);
  if (result != CUDA_SUCCESS) return result;
  Node node;
  node.type = CU_GRAPH_NODE_TYPE_KERNEL;
  node.function = function;
  node.launch = asked.what;
  if (capture(driver, *stream, std::move(node), result) != Captured::kNo) return result;
  return call.submit(*stream, 1, [&](DeviceModel& device) {
    device.launch(stream->model, kernel);
    expect_fault(*stream, *function, device);
  });
}

CUresult launch_ex(const char* name, const CUlaunchConfig* config, CUfunction function,
                   void** parameters, void** extra, DefaultStream which) {
  if (config == nullptr || (config->numAttrs > 0 && config->attrs == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  bool together = false;
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      together = config->attrs[i].value.cooperative != 0;
  return launch(name,
                {{function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                  config->blockDimY, config->blockDimZ, config->sharedMemBytes, parameters, extra},
                 config->hStream,
                 together},
                which);
}
}  // namespace

SLUICE_BOTH(cuLaunchKernel, _ptsz,
            (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
             CUstream stream, void** parameters, void** extra),
            {
              return launch(__func__,
                            {{function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                              shared_bytes, parameters, extra},
                             stream},
                            which);
            })

SLUICE_BOTH(cuLaunchKernelEx, _ptsz,
            (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra),
            { return launch_ex(__func__, config, function, parameters, extra, which); })

SLUICE_BOTH(cuLaunchCooperativeKernel, _ptsz,
            (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
             CUstream stream, void** parameters),
            {
              return launch(__func__,
                            {{function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                              shared_bytes, parameters, nullptr},
                             stream,
                             true},
                            which);
            })
