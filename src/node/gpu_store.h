// One GPU's model store (sluice-store), looked after: started, and started again when it dies. Who
// comes to its socket is handed on with the owner that the kernel's word makes it; the store hears
// nobody else. When we are gone it serves whom it has, and ends with the last of them; the next
// node daemon starts another, which knows nothing of what that one holds.
//
// Belongs to one io_context with one thread, and must outlive its coroutines.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>

#include "base/clock.h"
#include "model/slice.h"
#include "node/peer.h"
#include "node/spawn.h"

namespace sluice::node {

namespace asio = boost::asio;

struct GpuStorePlace {
  std::string program;  // sluice-store
  std::string gpu;      // its UUID: the only one that the store sees
  Bytes capacity = 0;   // of its memory, that models may share
  std::string socket;   // where clients come
  std::string output;   // a file: what the store prints
};

class GpuStore {
 public:
  // Under which name a process stores here. kNotFound: it has no slice of this GPU.
  using OwnerOf = std::function<Result<std::string>(const Peer&)>;

  GpuStore(asio::io_context& io, const Clock& clock, GpuStorePlace place, OwnerOf owner_of);
  GpuStore(const GpuStore&) = delete;

  // Clients may come from now on; they wait until the store runs.
  Result<void> start();

  const std::string& socket() const { return place_.socket; }

 private:
  asio::awaitable<void> live();
  asio::awaitable<void> accept_all();
  Result<void> start_process();
  Result<void> hand_over(Fd client);

  asio::io_context& io_;
  const Clock& clock_;
  const GpuStorePlace place_;
  const OwnerOf owner_of_;
  Fd listener_;
  SpawnedProcess process_;  // pid 0: none
  Fd control_;              // to the process
};

}  // namespace sluice::node
