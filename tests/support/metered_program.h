// A program under the metering hook, on an emulated device of its own, driven by a test that owns
// its pages. Runs in a process of its own (fault_of).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "tests/emulator/machine.h"
#include "tests/support/eventually.h"
#include "tests/support/hooked_process.h"
#include "tests/support/permit_daemon.h"

namespace sluice::hook {

namespace fs = std::filesystem;

constexpr uint64_t kUs = 1000, kMs = 1'000'000;

// Kernels take one SM, so that several run at once; launched with 132 blocks, all of the device.
constexpr char kModule[] =
    "kernel us10 ns=10000\nkernel us100 ns=100000\nkernel ms1 ns=1000000\nkernel ms2 ns=2000000\n"
    "kernel faulty ns=100000 fault=719\n";

// A program under the hook, on an emulated device of its own. Its faults are collected and reported
// at the end.
struct Program {
  Program()
      : folder(prepared()),
        daemon(folder / "permit.sock"),
        machine(emulator::Machine::open(folder / "gpu", {.memory = 4ull << 30})),
        cuda(SLUICE_EMULATED_DRIVER) {
    need(init(0), "cuInit");
    need(retain(&context, 0), "cuDevicePrimaryCtxRetain");
    need(set_current(context), "cuCtxSetCurrent");
    need(load(&module, kModule), "cuModuleLoadData");
    daemon.grant();
    // A first launch waits for its pages only so long; the next ones find them.
    expect(bool(eventually("pages",
                           [&] {
                             launch(function("us10"), nullptr);
                             need(synchronize(), "cuCtxSynchronize");
                             return daemon.report().seen_ns != 0;
                           })),
           "pages");
  }
  ~Program() { fs::remove_all(folder); }

  static fs::path prepared() {
    fs::path folder = testing::TempDir() + "meter" + std::to_string(getpid());
    fs::remove_all(folder);  // of a killed one that had this pid
    fs::create_directories(folder);
    setenv("SLUICE_EMULATED_GPU", (folder / "gpu").c_str(), 1);
    setenv("SLUICE_PERMIT_SOCKET", (folder / "permit.sock").c_str(), 1);
    return folder;
  }

  void need(CUresult result, const std::string& what) {
    if (result != CUDA_SUCCESS && fault.empty()) fault = what + ": " + std::to_string(result);
  }
  void expect(bool holds, const std::string& what) {
    if (!holds && fault.empty()) fault = what;
  }

  CUfunction function(const char* name) {
    CUfunction found = nullptr;
    need(get_function(&found, module, name), name);
    return found;
  }
  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream made = nullptr;
    need(stream_create(&made, flags), "cuStreamCreate");
    return made;
  }
  void launch(CUfunction kernel, CUstream stream, unsigned blocks = 1) {
    need(launch_kernel(kernel, blocks, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr), "launch");
  }
  // The next calls of a driver function fail, whatever code makes them.
  void fail(const char* call, uint32_t times) {
    const emulator::Machine::Lock lock(*machine);
    expect(emulator::inject(*lock, call, CUDA_ERROR_OUT_OF_MEMORY, 0, times, 0), call);
  }
  uint64_t device_busy() {
    const emulator::Machine::Lock lock(*machine);
    return static_cast<uint64_t>(lock->devices[0].device_busy_ns());
  }
  uint64_t submitted() const { return daemon.report().submitted_ns; }
  uint64_t in_flight() const {
    const sluice_device_report r = daemon.report();
    return r.submitted_ns - r.finished_ns;
  }

  template <typename F>
  F* of(const char* name) {
    return reinterpret_cast<F*>(cuda.function(name));
  }
#define SLUICE_CALL(variable, name) __typeof__(name)* variable = of<__typeof__(name)>(#name)

  const fs::path folder;
  PermitDaemon daemon;
  const std::unique_ptr<emulator::Machine> machine;
  const Hooked cuda;
  std::string fault;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  SLUICE_CALL(init, cuInit);
  SLUICE_CALL(retain, cuDevicePrimaryCtxRetain);
  SLUICE_CALL(release, cuDevicePrimaryCtxRelease_v2);
  SLUICE_CALL(context_create, cuCtxCreate_v2);
  SLUICE_CALL(context_destroy, cuCtxDestroy_v2);
  SLUICE_CALL(context_attach, cuCtxAttach);
  SLUICE_CALL(context_detach, cuCtxDetach);
  SLUICE_CALL(set_current, cuCtxSetCurrent);
  SLUICE_CALL(load, cuModuleLoadData);
  SLUICE_CALL(get_function, cuModuleGetFunction);
  SLUICE_CALL(stream_create, cuStreamCreate);
  SLUICE_CALL(stream_synchronize, cuStreamSynchronize);
  SLUICE_CALL(synchronize, cuCtxSynchronize);
  SLUICE_CALL(launch_kernel, cuLaunchKernel);
  SLUICE_CALL(launch_host_function, cuLaunchHostFunc);
  SLUICE_CALL(stream_wait_event, cuStreamWaitEvent);
  SLUICE_CALL(begin_capture, cuStreamBeginCapture_v2);
  SLUICE_CALL(end_capture, cuStreamEndCapture);
  SLUICE_CALL(instantiate, cuGraphInstantiateWithFlags);
  SLUICE_CALL(graph_nodes, cuGraphGetNodes);
  SLUICE_CALL(graph_launch, cuGraphLaunch);
  SLUICE_CALL(allocate, cuMemAlloc_v2);
  SLUICE_CALL(copy_to_device, cuMemcpyHtoD_v2);
  SLUICE_CALL(copy_from_device, cuMemcpyDtoH_v2);
  SLUICE_CALL(copy_within, cuMemcpyDtoDAsync_v2);
  SLUICE_CALL(set_bytes, cuMemsetD8Async);
  SLUICE_CALL(event_create, cuEventCreate);
  SLUICE_CALL(event_record, cuEventRecord);
  SLUICE_CALL(event_synchronize, cuEventSynchronize);
};

// What goes wrong in a program, which has a process of its own.
inline std::string fault_of(const std::function<void(Program&)>& body) {
  return in_process([&]() -> std::string {
    Program p;
    body(p);
    return p.fault;
  });
}

}  // namespace sluice::hook
