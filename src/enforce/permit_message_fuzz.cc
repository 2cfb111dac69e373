// Both parsers of permit.sock's messages: the daemon's, of clients' messages, and the gate's, of
// answers that may not come from our daemon.
#include <fcntl.h>
#include <sys/socket.h>

#include <cstdlib>

#include "enforce/permit_server.h"
#include "wire/permit.h"

namespace {

void daemon_hears(std::span<const std::byte> bytes) {
  const sluice::node::ClientMessage message = sluice::node::parse_message(bytes);
  std::visit(
      [](const auto& known) {
        if constexpr (requires { known.head; }) {
          if (known.head.magic != SLUICE_HELLO_MAGIC) std::abort();
          if (known.head.version < SLUICE_WIRE_VERSION_MIN ||
              known.head.version > SLUICE_WIRE_VERSION)
            std::abort();
        }
      },
      message);
}

void gate_hears(std::span<const std::byte> bytes) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) return;
  (void)!send(pair[1], bytes.data(), bytes.size(), MSG_NOSIGNAL);
  sluice_gate gate{};
  sluice_process* process = sluice_process_of(&gate);
  process->sock = pair[0];
  process->talking = 1;
  sluice_hear_answer(&gate, process, 1);
  // No message alone attaches: pages come as descriptors.
  if (process->current != nullptr) std::abort();
  if (process->talking != 0 || fcntl(pair[0], F_GETFD) != -1) std::abort();
  munmap(process, sizeof *process);
  close(pair[1]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  daemon_hears(bytes);
  gate_hears(bytes);
  return 0;
}
