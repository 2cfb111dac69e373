// A sluice-store process on an emulated GPU, and its clients' actions (StoreUser). The emulated
// machine's own books say what is on the device. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "abi/cuda_abi.h"
#include "store/process.h"
#include "tests/emulator/machine.h"
#include "tests/support/eventually.h"
#include "tests/support/folder.h"
#include "tests/support/store_client.h"
#include "tests/support/tensors_on_device.h"

namespace sluice::node {

constexpr uint64_t kMib = 1 << 20;
constexpr uint64_t kBytes = 5 * kMib, kOnDevice = 6 * kMib;  // of a tensor, in granules of 2 MiB

// ---- in a client's process ----------------------------------------------------------------------

inline bool enter_device() {
  CUcontext context = nullptr;
  return cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
         cuCtxSetCurrent(context) == CUDA_SUCCESS;
}
inline CUdeviceptr address(const sluice_tensor* tensor) {
  return reinterpret_cast<CUdeviceptr>(tensor->data);
}
inline bool write(const sluice_tensor* tensor, char value) {
  const std::string bytes(tensor->bytes, value);
  return cuMemcpyHtoD_v2(address(tensor), bytes.data(), bytes.size()) == CUDA_SUCCESS;
}
// Returns the value of its bytes; '?' if they differ, '!' if unreadable.
inline char read_back(const sluice_tensor* tensor) {
  std::string bytes(tensor->bytes, 0);
  if (cuMemcpyDtoH_v2(bytes.data(), address(tensor), bytes.size()) != CUDA_SUCCESS) return '!';
  return bytes.find_first_not_of(bytes.front()) == bytes.npos ? bytes.front() : '?';
}

// Stores "w", and fills it with `value` if it is to. Says 'c' then, or its value.
inline sluice_tensor* store_w(sluice_store* store, char value, const StoreUser::Say& say) {
  sluice_tensor* w = nullptr;
  if (!enter_device() || sluice_store_tensor(store, "w", kBytes, -1, &w) != SLUICE_OK) return w;
  if (w->fill == 0)
    say(read_back(w));
  else if (write(w, value) && sluice_commit_tensor(store, w) == SLUICE_OK)
    say('c');
  return w;
}
inline void get_w(sluice_store* store, const StoreUser::Say& say) {
  sluice_tensor* w = nullptr;
  if (enter_device() && sluice_get_tensor(store, "w", -1, &w) == SLUICE_OK) say(read_back(w));
}

// ---- in the test's ------------------------------------------------------------------------------

class StoreOnGpu {
 public:
  // program: sluice-store's path; memory: its memory argument.
  StoreOnGpu(const char* program, const char* memory) : program_(program), memory_(memory) {
    setenv("SLUICE_EMULATED_GPU", (folder_.path + "/gpu").c_str(), 1);
    machine_ = emulator::Machine::open(
        folder_.path + "/gpu", {.devices = 2, .memory = 4096 * kMib, .virtual_clock = true});
    start(4096 * kMib);
  }
  ~StoreOnGpu() {
    kill_store();
    unsetenv("SLUICE_EMULATED_GPU");
  }
  StoreOnGpu(const StoreOnGpu&) = delete;

 protected:
  void start(uint64_t capacity) {
    SocketEnds pair = socket_pair();
    control_ = std::move(pair.ours);
    store_ = fork();
    if (store_ != 0) return;
    setenv("LD_LIBRARY_PATH", SLUICE_EMULATED_DRIVER_FOLDER, 1);
    dup2(pair.theirs.get(), 3);
    execl(program_, program_, "3", std::to_string(capacity).c_str(), memory_, nullptr);
    _exit(127);
  }
  void kill_store() {
    if (store_ <= 0) return;
    ::kill(store_, SIGKILL);
    waitpid(std::exchange(store_, -1), nullptr, 0);
  }
  // Without a store, the client finds the connection closed.
  Fd connect(const std::string& owner = "f") {
    SocketEnds pair = socket_pair();
    (void)hand_to_store(control_.get(), owner, std::move(pair.ours));
    return std::move(pair.theirs);
  }

  int on_device() { return tensors_on_device(*machine_, kOnDevice); }
  testing::AssertionResult becomes(int tensors) {
    return eventually(std::to_string(tensors) + " tensors on the device",
                      [&] { return on_device() == tensors; });
  }
  bool legacy() const { return std::string_view(memory_).starts_with("cuda-legacy"); }

  const TemporaryFolder folder_;
  const char* const program_;
  const char* const memory_;
  std::unique_ptr<emulator::Machine> machine_;
  Fd control_;
  pid_t store_ = -1;
};

}  // namespace sluice::node
