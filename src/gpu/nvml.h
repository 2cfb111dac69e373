// NVIDIA's management library, opened at run time: which GPUs this machine has, and how they are.
// Nothing of NVIDIA's is needed to build or to start; where it is absent, too old or broken, that
// is a reason in words.
//
// A call may take as long as the driver likes, seconds at times: for a thread that may wait
// (gpu_watch.h). Any thread may call.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "abi/nvml_abi.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/device.h"

namespace sluice::node {

inline constexpr std::string_view kNvmlLibrary = "libnvidia-ml.so.1";
inline constexpr std::string_view kUncorrected = "an error in its memory that ECC cannot correct";

// Those of its functions that we use; null: this library has none.
struct NvmlFunctions;

struct GpuLoad {
  int busy_percent = 0;  // of NVML's last period in which some kernel ran
  Bytes memory_used = 0;
  std::optional<Share> sm_occupancy;  // of the watch's last period; none: it is not measured

  bool operator==(const GpuLoad&) const = default;
};

// What a process used of a GPU by its own word.
struct GpuProcessUse {
  pid_t pid = 0;
  int busy_percent = 0;   // of the time since then, in which some kernel of it ran
  uint64_t until_us = 0;  // of CLOCK_REALTIME

  bool operator==(const GpuProcessUse&) const = default;
};

// What happened to a GPU by its own word.
struct GpuEvent {
  std::string uuid;
  std::string what;
  bool failing = false;  // the GPU, and not a program on it
};

class Nvml {
 public:
  // `library`: a path, or a name that the loader finds. kUnavailable: why there is none.
  static Result<std::unique_ptr<Nvml>> open(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;

  // What can be learned of each GPU that answers, in NVML's order; ids are UUIDs. One that answers
  // nothing is left out.
  std::vector<Device> gpus();
  std::string driver_version() const;

  // An error says what is wrong with the GPU.
  Result<GpuLoad> load(const std::string& uuid) const;
  // Active warps ÷ the most that fit the GPU, since the last call for it. Returns nothing at the
  // first call, and where it has no such counters (older than Hopper). One thread calls.
  std::optional<Share> sm_occupancy(const std::string& uuid);
  // Of each process that used something since then; none of MPS's clients.
  std::vector<GpuProcessUse> process_uses(const std::string& uuid, uint64_t since_us) const;
  // What each process on it has of its memory, clients of MPS too. Nothing: it does not say.
  std::optional<std::map<pid_t, Bytes>> process_memory(const std::string& uuid) const;
  // Errors in its memory that ECC could not correct, since the driver was loaded.
  uint64_t uncorrected_errors(const std::string& uuid) const;
  // The next event; nothing where there was none within `patience`. An error: it cannot wait, since
  // the library knows no events, or a GPU is lost.
  Result<std::optional<GpuEvent>> wait_for_event(Nanos patience);

 private:
  struct Gpu {
    nvmlDevice_t handle;
    std::string uuid;
    std::string bus;
    nvmlGpmSample_t before, now;  // `now` is null if the library has no GPM
    bool sampled = false;         // `before` holds the last sample
  };

  explicit Nvml(std::unique_ptr<NvmlFunctions> functions);
  Device describe(const Gpu& gpu) const;
  DeviceLink link(const Gpu& from, const Gpu& to) const;
  int nvlinks(const Gpu& from, const Gpu& to) const;
  int switch_links(const Gpu& gpu) const;
  const Gpu* find(const std::string& uuid) const;

  std::unique_ptr<NvmlFunctions> call_;
  std::vector<Gpu> gpus_;
  nvmlEventSet_t events_ = nullptr;
};

// Whether an Xid says that the GPU fails, and not a program on it.
bool is_fault(uint64_t xid);

// SMs of a GPU with so many CUDA cores; 0 where it is not known how many an SM of it has.
int sms_of(int cores, int compute_capability);

}  // namespace sluice::node
