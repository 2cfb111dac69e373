// The library in the driver's place: every entry point reaches the driver's own with all that was
// passed, addresses are exact, and nothing that a process does to it goes wrong.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/hooked_process.h"

namespace sluice::hook {
namespace {

constexpr unsigned kEntries = static_cast<unsigned>(Entry::kCount);

// The hooked ones have a signature: how many words it has. All others are jumps.
const std::map<std::string, int> kParameters = {
    {"cuArray3DCreate_v2", 2},
    {"cuArrayCreate_v2", 2},
    {"cuArrayDestroy", 1},
    {"cuCtxDestroy", 1},
    {"cuCtxDestroy_v2", 1},
    {"cuCtxDetach", 1},
    {"cuCtxSynchronize", 0},
    {"cuCtxSynchronize_v2", 1},
    {"cuCtxWaitEvent", 2},
    {"cuDevicePrimaryCtxRelease", 1},
    {"cuDevicePrimaryCtxRelease_v2", 1},
    {"cuDevicePrimaryCtxReset", 1},
    {"cuDevicePrimaryCtxReset_v2", 1},
    {"cuDeviceTotalMem", 2},
    {"cuDeviceTotalMem_v2", 2},
    {"cuEventSynchronize", 1},
    {"cuDeviceGraphMemTrim", 1},
    {"cuGraphExecDestroy", 1},
    {"cuGraphInstantiate", 5},
    {"cuGraphInstantiateWithFlags", 3},
    {"cuGraphInstantiateWithParams", 3},
    {"cuGraphInstantiateWithParams_ptsz", 3},
    {"cuGraphInstantiate_v2", 5},
    {"cuLibraryUnload", 1},
    {"cuModuleUnload", 1},
    {"cuGraphLaunch", 2},
    {"cuGraphLaunch_ptsz", 2},
    {"cuGreenCtxDestroy", 1},
    {"cuGreenCtxWaitEvent", 2},
    {"cuLaunchCooperativeKernel", 10},
    {"cuLaunchCooperativeKernel_ptsz", 10},
    {"cuLaunchHostFunc", 3},
    {"cuLaunchHostFunc_ptsz", 3},
    {"cuLaunchKernel", 11},
    {"cuLaunchKernelEx", 4},
    {"cuLaunchKernelEx_ptsz", 4},
    {"cuLaunchKernel_ptsz", 11},
    {"cuMemAllocAsync", 3},
    {"cuMemAllocAsync_ptsz", 3},
    {"cuMemAllocFromPoolAsync", 4},
    {"cuMemAllocFromPoolAsync_ptsz", 4},
    {"cuMemAllocManaged", 3},
    {"cuMemAllocPitch_v2", 5},
    {"cuMemAlloc_v2", 2},
    {"cuMemCreate", 4},
    {"cuMemFreeAsync", 2},
    {"cuMemFreeAsync_ptsz", 2},
    {"cuMemFree_v2", 1},
    {"cuMemGetInfo", 2},
    {"cuMemGetInfo_v2", 2},
    {"cuMemImportFromShareableHandle", 3},
    {"cuMemMap", 5},
    {"cuMemPoolCreate", 2},
    {"cuMemPoolDestroy", 1},
    {"cuMemPoolTrimTo", 2},
    {"cuMemRelease", 1},
    {"cuMemRetainAllocationHandle", 2},
    {"cuMemUnmap", 2},
    {"cuMemcpy", 3},
    {"cuMemcpy2DAsync_v2", 2},
    {"cuMemcpy2DAsync_v2_ptsz", 2},
    {"cuMemcpy2DUnaligned_v2", 1},
    {"cuMemcpy2DUnaligned_v2_ptds", 1},
    {"cuMemcpy2D_v2", 1},
    {"cuMemcpy2D_v2_ptds", 1},
    {"cuMemcpy3DAsync_v2", 2},
    {"cuMemcpy3DAsync_v2_ptsz", 2},
    {"cuMemcpy3D_v2", 1},
    {"cuMemcpy3D_v2_ptds", 1},
    {"cuMemcpyAsync", 4},
    {"cuMemcpyAsync_ptsz", 4},
    {"cuMemcpyDtoDAsync_v2", 4},
    {"cuMemcpyDtoDAsync_v2_ptsz", 4},
    {"cuMemcpyDtoD_v2", 3},
    {"cuMemcpyDtoD_v2_ptds", 3},
    {"cuMemcpyDtoHAsync_v2", 4},
    {"cuMemcpyDtoHAsync_v2_ptsz", 4},
    {"cuMemcpyDtoH_v2", 3},
    {"cuMemcpyDtoH_v2_ptds", 3},
    {"cuMemcpyHtoDAsync_v2", 4},
    {"cuMemcpyHtoDAsync_v2_ptsz", 4},
    {"cuMemcpyHtoD_v2", 3},
    {"cuMemcpyHtoD_v2_ptds", 3},
    {"cuMemcpyPeer", 5},
    {"cuMemcpyPeerAsync", 6},
    {"cuMemcpyPeerAsync_ptsz", 6},
    {"cuMemcpyPeer_ptds", 5},
    {"cuMemcpy_ptds", 3},
    {"cuMemsetD16Async", 4},
    {"cuMemsetD16Async_ptsz", 4},
    {"cuMemsetD16_v2", 3},
    {"cuMemsetD16_v2_ptds", 3},
    {"cuMemsetD2D16Async", 6},
    {"cuMemsetD2D16Async_ptsz", 6},
    {"cuMemsetD2D16_v2", 5},
    {"cuMemsetD2D16_v2_ptds", 5},
    {"cuMemsetD2D32Async", 6},
    {"cuMemsetD2D32Async_ptsz", 6},
    {"cuMemsetD2D32_v2", 5},
    {"cuMemsetD2D32_v2_ptds", 5},
    {"cuMemsetD2D8Async", 6},
    {"cuMemsetD2D8Async_ptsz", 6},
    {"cuMemsetD2D8_v2", 5},
    {"cuMemsetD2D8_v2_ptds", 5},
    {"cuMemsetD32Async", 4},
    {"cuMemsetD32Async_ptsz", 4},
    {"cuMemsetD32_v2", 3},
    {"cuMemsetD32_v2_ptds", 3},
    {"cuMemsetD8Async", 4},
    {"cuMemsetD8Async_ptsz", 4},
    {"cuMemsetD8_v2", 3},
    {"cuMemsetD8_v2_ptds", 3},
    {"cuMipmappedArrayCreate", 3},
    {"cuMipmappedArrayDestroy", 1},
    {"cuStreamAddCallback", 4},
    {"cuStreamAddCallback_ptsz", 4},
    {"cuStreamBatchMemOp", 4},
    {"cuStreamBatchMemOp_ptsz", 4},
    {"cuStreamBatchMemOp_v2", 4},
    {"cuStreamBatchMemOp_v2_ptsz", 4},
    {"cuStreamBeginCapture", 1},
    {"cuStreamBeginCaptureToGraph", 6},
    {"cuStreamBeginCaptureToGraph_ptsz", 6},
    {"cuStreamBeginCapture_ptsz", 1},
    {"cuStreamBeginCapture_v2_ptsz", 2},
    {"cuStreamCreate", 2},
    {"cuStreamCreateWithPriority", 3},
    {"cuStreamEndCapture_ptsz", 2},
    {"cuStreamSynchronize", 1},
    {"cuStreamSynchronize_ptsz", 1},
    {"cuStreamWaitEvent", 3},
    {"cuStreamWaitEvent_ptsz", 3},
    {"cuStreamWaitValue32", 4},
    {"cuStreamWaitValue32_ptsz", 4},
    {"cuStreamWaitValue32_v2", 4},
    {"cuStreamWaitValue32_v2_ptsz", 4},
    {"cuStreamWaitValue64", 4},
    {"cuStreamWaitValue64_ptsz", 4},
    {"cuStreamWaitValue64_v2", 4},
    {"cuStreamWaitValue64_v2_ptsz", 4},
    {"cuWaitExternalSemaphoresAsync", 4},
    {"cuWaitExternalSemaphoresAsync_ptsz", 4},
};

// The driver for tests answers these.
const std::set<std::string> kAnswering = {
    "cuCtxGetDevice",          "cuDeviceGetCount",    "cuGetProcAddress",
    "cuGetProcAddress_v2",     "cuStreamIsCapturing", "cuStreamIsCapturing_ptsz",
    "cuStreamBeginCapture_v2", "cuStreamEndCapture",
};

// The hook refuses these.
const std::set<std::string> kRefused = {
    "cuArray3DCreate", "cuArrayCreate",     "cuLaunch",   "cuLaunchCooperativeKernelMultiDevice",
    "cuLaunchGrid",    "cuLaunchGridAsync", "cuMemAlloc", "cuMemAllocPitch",
    "cuMemFree",
};

constexpr unsigned long kWide = 0x0123456700000000;  // what a 32-bit parameter does not keep

// What is wrong with one call of an entry point; empty: nothing.
std::string fault_of_call(const Hooked& cuda, unsigned entry) {
  static const unsigned long zeros[64] = {};  // a hook looks into what its first word points to
  const std::string name = kNames[entry];
  const auto hooked = kParameters.find(name);
  const bool jump = hooked == kParameters.end();
  Words words;
  Reals reals;
  for (unsigned i = 0; i < kWords; ++i) words[i] = jump ? kWide + entry * 100 + i : i + 1;
  for (int i = 0; i < kReals; ++i) reals[i] = entry + i / 16.0;
  // Its first word is a number.
  const bool device = name.starts_with("cuDevicePrimary") || name == "cuDeviceGraphMemTrim";
  if (!jump && !device) words[0] = reinterpret_cast<unsigned long>(zeros);
  if (name.starts_with("cuGraphInstantiateWithParams")) words[2] = words[0];
  const int result = cuda.call(name, words, reals);
  const Call& seen = cuda.state->last;
  if (result != returned_by(entry)) return name + " returned " + std::to_string(result);
  if (seen.entry != entry) return name + " reached " + kNames[seen.entry];
  for (int i = 0; i < (jump ? kWords : hooked->second); ++i) {
    const bool whole = jump || (i == 0 && !device);  // a pointer, but for devices
    const unsigned long kept = whole ? ~0ul : 0xffffffff;
    if ((seen.words[i] & kept) != (words[i] & kept)) return name + ": word " + std::to_string(i);
  }
  for (int i = 0; jump && i < kReals; ++i)
    if (seen.reals[i] != reals[i]) return name + ": real " + std::to_string(i);
  return "";
}

TEST(HookTest, EveryEntryPointReachesTheDriversWithAllArguments) {
  EXPECT_EQ(in_process([] {
              const Hooked cuda;
              for (unsigned entry = 0; entry < kEntries; ++entry) {
                if (kAnswering.contains(kNames[entry]) || kRefused.contains(kNames[entry]))
                  continue;
                for (const char* when : {"first", "again"}) {
                  const std::string fault = fault_of_call(cuda, entry);
                  if (!fault.empty()) return fault + ", called " + when;
                }
              }
              return std::string();
            }),
            "");
}

struct Query {
  const char *name, *symbol;
  int version;
  uint64_t flags;
};
constexpr Query kHooked[] = {
#define SLUICE_PASSED(name)
#define SLUICE_HOOKED(name, symbol, version, flags) {#name, symbol, version, flags},
#include "hook/entry_points.inc"
#undef SLUICE_PASSED
#undef SLUICE_HOOKED
};

TEST(HookTest, TheHookedOnesAreAllInTheTableOfThisTest) {
  for (const Query& q : kHooked)
    EXPECT_EQ(kParameters.count(q.name) + kAnswering.count(q.name) + kRefused.count(q.name), 1)
        << q.name;
}

TEST(HookTest, WhatIsRefusedDoesNotReachTheDriver) {
  EXPECT_EQ(in_process([]() -> std::string {
              const Hooked cuda;
              for (const std::string& name : kRefused)
                if (cuda.call(name) != CUDA_ERROR_NOT_SUPPORTED || cuda.state->calls != 0)
                  return name;
              return "";
            }),
            "");
}

using GetProcAddress = decltype(&cuGetProcAddress);
using GetProcAddress2 = decltype(&cuGetProcAddress_v2);

TEST(HookTest, ProcAddressesOfHookedVariantsAreTheHooksOfThoseVariants) {
  EXPECT_EQ(in_process([]() -> std::string {
              const Hooked cuda;
              const auto ask = reinterpret_cast<GetProcAddress>(cuda.function("cuGetProcAddress"));
              const auto ask2 =
                  reinterpret_cast<GetProcAddress2>(cuda.function("cuGetProcAddress_v2"));
              for (const Query& q : kHooked) {
                void* address = nullptr;
                CUdriverProcAddressQueryResult found = {};
                if (ask(q.symbol, &address, q.version, q.flags) != CUDA_SUCCESS ||
                    address != cuda.function(q.name))
                  return q.name;
                address = nullptr;
                if (ask2(q.symbol, &address, q.version, q.flags, &found) != CUDA_SUCCESS ||
                    address != cuda.function(q.name))
                  return std::string(q.name) + ", by the second interface";
              }
              return "";
            }),
            "");
}

TEST(HookTest, ProcAddressesOfAllElseAreTheDriversAnswer) {
  EXPECT_EQ(in_process([]() -> std::string {
              const Hooked cuda;
              const auto ask =
                  reinterpret_cast<GetProcAddress2>(cuda.function("cuGetProcAddress_v2"));
              void* address = nullptr;
              CUdriverProcAddressQueryResult found = {};
              if (ask("cuInit", &address, 13000, 0, &found) != CUDA_SUCCESS ||
                  address != dlsym(cuda.driver, "cuInit"))
                return "cuInit";
              if (ask("", &address, 0, 0, &found) != CUDA_SUCCESS || address != nullptr)
                return "the empty name, with which CUDA's runtime begins";
              address = &address;
              if (ask("cuNoSuch", &address, 13000, 0, &found) != CUDA_SUCCESS ||
                  address != nullptr || found != CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
                return "a name that the driver does not know";
              if (ask("cuInit", nullptr, 13000, 0, nullptr) != CUDA_ERROR_INVALID_VALUE)
                return "nowhere to put the address";
              return "";
            }),
            "");
}

TEST(HookTest, ManyThreadsMayComeFirstAtOnce) {
  EXPECT_EQ(in_process([] {
              const Hooked cuda;
              std::atomic<int> wrong{0};
              std::atomic<bool> go{false};
              std::vector<std::thread> threads;
              for (unsigned t = 0; t < 256; ++t)
                threads.emplace_back([&, t] {
                  while (!go) std::this_thread::yield();
                  void* address = nullptr;
                  const auto ask =
                      reinterpret_cast<GetProcAddress>(cuda.function("cuGetProcAddress"));
                  if (ask("cuLaunchKernel", &address, 13000, 0) != CUDA_SUCCESS ||
                      address != cuda.function("cuLaunchKernel"))
                    ++wrong;
                  for (unsigned i = 0; i < 8; ++i) {
                    const unsigned entry = (t / 8 + i) % kEntries;
                    if (kAnswering.contains(kNames[entry]) || kRefused.contains(kNames[entry]))
                      continue;
                    if (cuda.call(kNames[entry]) != returned_by(entry)) ++wrong;
                  }
                  if (cuda.call("cuLaunchKernel") !=
                      returned_by(static_cast<unsigned>(Entry::cuLaunchKernel)))
                    ++wrong;
                });
              go = true;
              for (std::thread& t : threads) t.join();
              return wrong == 0 ? std::string() : std::to_string(wrong) + " calls went wrong";
            }),
            "");
}

int synchronised() {
  return returned_by(static_cast<unsigned>(Entry::cuCtxSynchronize));
}

TEST(HookTest, ErrnoIsTheCallers) {
  EXPECT_EQ(in_process([]() -> std::string {
              const Hooked cuda("/no/such/driver");
              errno = EXDEV;
              cuda.call("cuCtxSynchronize");
              return errno == EXDEV ? "" : strerror(errno);
            }),
            "");
}

TEST(HookTest, AForkedChildGoesOn) {
  for (const bool parent_called : {false, true})
    EXPECT_EQ(in_process([parent_called] {
                const Hooked cuda;
                if (parent_called) cuda.call("cuLaunchKernel");
                return in_process([&]() -> std::string {
                  return cuda.call("cuCtxSynchronize") == synchronised() &&
                                 cuda.call("cuLaunchKernel") ==
                                     returned_by(static_cast<unsigned>(Entry::cuLaunchKernel))
                             ? ""
                             : "the child's calls did not arrive";
                });
              }),
              "");
}

TEST(HookTest, ClosedAndOpenedAgainItIsStillThere) {
  EXPECT_EQ(in_process([]() -> std::string {
              const Hooked cuda;
              void* const launch = cuda.function("cuLaunchKernel");
              call(launch);
              for (int i = 0; i < 3; ++i) dlclose(cuda.library);
              call(launch);  // as a thread does that has not heard of it
              const Hooked again;
              return again.function("cuLaunchKernel") == launch && cuda.state->calls == 2
                         ? ""
                         : "it was unmapped";
            }),
            "");
}

TEST(HookTest, ASecondNamespaceHasItsOwn) {
  EXPECT_EQ(in_process([]() -> std::string {
              const Hooked cuda;
              cuda.call("cuCtxSynchronize");
              void* other = dlmopen(LM_ID_NEWLM, kHook, RTLD_NOW);
              if (other == nullptr) return dlerror();
              if (call(dlsym(other, "cuCtxSynchronize")) != synchronised()) return "did not arrive";
              return cuda.state->calls == 1 ? "" : "it came to the driver of the first namespace";
            }),
            "");
}

TEST(HookTest, WithoutADriverCallsFailAsWithoutADevice) {
  EXPECT_EQ(
      in_process([]() -> std::string {
        const Hooked cuda("/no/such/driver");
        for (unsigned entry = 0; entry < kEntries; ++entry) {
          const std::string name = kNames[entry];
          if (name.starts_with("cuGetError") || kRefused.contains(name)) continue;
          if (cuda.call(name) != CUDA_ERROR_NO_DEVICE) return name;
        }
        const char* text = "";
        const auto describe =
            reinterpret_cast<decltype(&cuGetErrorString)>(cuda.function("cuGetErrorString"));
        if (describe(CUDA_ERROR_NO_DEVICE, &text) != CUDA_SUCCESS || text == nullptr)
          return "cuGetErrorString";
        if (describe(CUDA_ERROR_UNKNOWN, &text) != CUDA_ERROR_INVALID_VALUE || text != nullptr)
          return "cuGetErrorString of another error";
        return "";
      }),
      "");
}

TEST(HookTest, ADriverMayComeLater) {
  const std::string path = testing::TempDir() + "later" + std::to_string(getpid()) + ".so";
  EXPECT_EQ(in_process([&]() -> std::string {
              const Hooked cuda(path.c_str());
              if (cuda.call("cuCtxSynchronize") != CUDA_ERROR_NO_DEVICE) return "too early";
              std::filesystem::create_symlink(kRecordingDriver, path);
              return cuda.call("cuCtxSynchronize") == synchronised() ? "" : "not found";
            }),
            "");
  std::filesystem::remove(path);
}

// A mathematician's driver: a library that has none of the entry points.
TEST(HookTest, WhatTheDriverLacksSaysThatItIsTooOld) {
  EXPECT_EQ(in_process([]() -> std::string {
              const Hooked cuda("libm.so.6");
              return cuda.call("cuCtxSynchronize") == CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER &&
                             cuda.call("cuLaunchKernel") == CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER
                         ? ""
                         : "another error";
            }),
            "");
}

TEST(HookTest, NeverTakesItselfForTheDriver) {
  const std::string copy = testing::TempDir() + "copy" + std::to_string(getpid()) + ".so";
  std::filesystem::copy_file(kHook, copy);
  for (const std::string& path : {std::string(kHook), copy})
    EXPECT_EQ(in_process([&]() -> std::string {
                const Hooked cuda(path.c_str());
                return cuda.call("cuCtxSynchronize") == CUDA_ERROR_NO_DEVICE ? ""
                                                                             : "it called itself";
              }),
              "");
  std::filesystem::remove(copy);
}

}  // namespace
}  // namespace sluice::hook
