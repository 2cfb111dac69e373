// Both parsers of the model store's messages: the store's, of clients' messages, and the C API's,
// of answers that may not come from our store.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "store/server.h"
#include "wire/model_store.h"

namespace {

void store_hears(std::span<const std::byte> bytes) {
  const auto request = sluice::node::parse_store_request(bytes);
  if (!request.ok()) return;
  if (request->head.magic != SLUICE_STORE_MAGIC) std::abort();
  if (request->head.type < SLUICE_ASK_STORE || request->head.type > SLUICE_ASK_CANCEL) std::abort();
  if (request->head.type > SLUICE_ASK_GET) return;
  const size_t length = ::strnlen(request->name, sizeof request->name);
  if (length == 0 || length == sizeof request->name) std::abort();
}

// No message alone gives memory: that comes as a descriptor. GPU memory is left out: it needs a
// driver.
void client_hears(std::span<const std::byte> bytes) {
  sluice_store_answer answer{};
  std::memcpy(&answer, bytes.data(), std::min(bytes.size(), sizeof answer));
  if (answer.memory != SLUICE_MEMORY_HOST) return;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return;
  (void)!send(pair[1], bytes.data(), bytes.size(), MSG_NOSIGNAL);
  shutdown(pair[1], SHUT_WR);
  sluice_store* store = nullptr;
  sluice_tensor* tensor = nullptr;
  sluice_store_adopt(pair[0], &store);
  if (sluice_get_tensor(store, "w", -1, &tensor) == SLUICE_OK || tensor != nullptr) std::abort();
  if (sluice_store_why(store)[0] == 0) std::abort();
  sluice_store_close(store);
  if (fcntl(pair[0], F_GETFD) != -1) std::abort();
  close(pair[1]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  store_hears(bytes);
  client_hears(bytes);
  return 0;
}
