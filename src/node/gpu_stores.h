// The model stores of a node's GPUs, one each, where some of their memory is set aside for them.
//
// Belongs to the daemon's loop, and must outlive its coroutines.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/gpu_devices.h"
#include "node/gpu_store.h"
#include "node/instance_launcher.h"

namespace sluice::node {

class GpuStores {
 public:
  // Under which name a process stores on that GPU. kNotFound: it has no slice of it.
  using OwnerOf = std::function<Result<std::string>(const Peer&, const DeviceId&)>;

  GpuStores(asio::io_context& io, const Clock& clock, const GpuSettings& settings,
            const DataPaths& paths, const std::vector<LocalDevice>& devices,
            const OwnerOf& owner_of);

  // Clients may come from now on.
  Result<void> start();

  // Where programs on the device reach its store; none: it has none.
  std::optional<std::string> socket_of(const DeviceId& device) const;

 private:
  std::map<DeviceId, std::unique_ptr<GpuStore>> stores_;
};

}  // namespace sluice::node
