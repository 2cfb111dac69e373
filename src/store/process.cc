#include "store/process.h"

#include <string>

#include "wire/packet.h"
#include "wire/permit_steps.h"

namespace sluice::node {

Result<void> hand_to_store(int control, std::string_view owner, Fd socket) {
  if (owner.empty() || owner.size() > kLongestOwner)
    return Error{ErrorKind::kInvalid, "owner: has " + std::to_string(owner.size()) +
                                          " bytes, not 1 … " + std::to_string(kLongestOwner)};
  const int fds[] = {socket.get()};
  return wire::send_packet(control, std::as_bytes(std::span(owner)), fds);
}

void serve_store(StoreServer& server, Fd control) {
  for (;;) {
    Result<wire::Packet> packet = wire::receive_packet(control.get());
    if (!packet.ok() && packet.error().kind != ErrorKind::kInvalid) break;
    if (!packet.ok() || packet->fds.empty() || packet->bytes.empty()) continue;
    const std::string owner(reinterpret_cast<const char*>(packet->bytes.data()),
                            packet->bytes.size());
    SLUICE_STEP("keep: received");
    // A connection that cannot be served is closed, and its client sees that.
    (void)server.adopt(std::move(packet->fds[0]), owner);
  }
  server.wait_until_unused();
}

}  // namespace sluice::node
