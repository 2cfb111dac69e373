#include "node/gpu_stores.h"

#include <filesystem>

namespace sluice::node {

GpuStores::GpuStores(asio::io_context& io, const Clock& clock, const GpuSettings& settings,
                     const DataPaths& paths, const std::vector<LocalDevice>& devices,
                     const OwnerOf& owner_of) {
  for (const auto& [d, cores] : devices) {
    if (d.kind != DeviceKind::kCuda || !d.set_apart.empty() || settings.store <= 0) continue;
    stores_[d.id] = std::make_unique<GpuStore>(
        io, clock,
        GpuStorePlace{.program = settings.store_program,
                      .gpu = d.uuid,
                      .capacity = settings.store,
                      .socket = std::filesystem::absolute(paths.store_socket(d.id)),
                      .output = std::filesystem::absolute(paths.log_of("store-" + d.id))},
        [owner_of, id = d.id](const Peer& peer) { return owner_of(peer, id); });
  }
}

Result<void> GpuStores::start() {
  for (const auto& [id, store] : stores_) SLUICE_TRY(store->start());
  return {};
}

std::optional<std::string> GpuStores::socket_of(const DeviceId& device) const {
  const auto found = stores_.find(device);
  if (found == stores_.end()) return std::nullopt;
  return found->second->socket();
}

}  // namespace sluice::node
