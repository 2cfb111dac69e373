// The model stores of a node's GPUs: one for each GPU with memory set aside for it.
//
// Belongs to the daemon's loop, and must outlive its coroutines.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/data_paths.h"
#include "node/gpu_devices.h"
#include "store/gpu_store.h"

namespace sluice::node {

class GpuStores {
 public:
  // Returns the owner name under which a process stores on that GPU. kNotFound: it has no slice of
  // it.
  using OwnerOf = std::function<Result<std::string>(const Peer&, const DeviceId&)>;

  GpuStores(asio::io_context& io, const Clock& clock, const GpuSettings& settings,
            const DataPaths& paths, const std::vector<LocalDevice>& devices,
            const OwnerOf& owner_of);

  // Clients may connect from now on.
  Result<void> start();

  // Returns the socket of the device's store; nothing if it has none.
  std::optional<std::string> socket_of(const DeviceId& device) const;

 private:
  std::map<DeviceId, std::unique_ptr<GpuStore>> stores_;
};

}  // namespace sluice::node
