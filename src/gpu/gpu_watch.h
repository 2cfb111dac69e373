// Looks after this machine's GPUs on a thread of its own, for a call of NVML's can take seconds, or
// for ever when a GPU fails: who asks here never waits, but once at the start, and then not for
// ever either.
//
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "enforce/device_account.h"
#include "gpu/nvml.h"

namespace sluice::node {

struct GpuFault {
  std::string uuid;
  std::string why;

  bool operator==(const GpuFault&) const = default;
};

class GpuWatch {
 public:
  // Opens `library` and finds what there is; an empty name stands for no GPUs. Where NVML does not
  // answer within `patience`, there is nothing.
  static std::unique_ptr<GpuWatch> start(const std::string& library, Nanos patience = Seconds(10));
  ~GpuWatch();  // on_fault is called no more
  GpuWatch(const GpuWatch&) = delete;

  // As Nvml::gpus() had it at the start.
  const std::vector<Device>& gpus() const { return gpus_; }
  // What was found, or why nothing was: for people.
  const std::string& describe() const { return description_; }

  // From now on, every GPU that begins to fail, once. Called on the watch's thread, and
  // must ask nothing of the watch.
  void on_fault(std::function<void(const GpuFault&)> call);
  // The newest that is known of each, by UUID.
  std::map<std::string, GpuLoad> loads() const;
  // What a GPU says of the processes on it; good for as long as anybody has it.
  std::shared_ptr<const DeviceAccount> account(const std::string& uuid) const;

 private:
  class Account;
  struct Shared;  // with the thread, which may outlive us when it hangs in NVML

  explicit GpuWatch(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<Shared> shared_;
  std::vector<Device> gpus_;
  std::string description_;
};

}  // namespace sluice::node
