// Supervises one GPU's model store (sluice-store): starts it, and starts it again when it dies. A
// client of its socket is handed on with the owner that its kernel identity maps to; the store
// takes no other clients. After this process ends, the store serves its clients until the last one
// leaves. The next node daemon starts another store, which does not know what the first one holds.
//
// Belongs to one io_context with one thread, and must outlive its coroutines.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>

#include "base/clock.h"
#include "model/slice.h"
#include "process/peer.h"
#include "process/spawn.h"

namespace sluice::node {

namespace asio = boost::asio;

struct GpuStorePlace {
  std::string program;  // sluice-store
  std::string gpu;      // its UUID: the store sees no other
  Bytes capacity = 0;   // memory that models may share
  std::string socket;   // where clients connect
  std::string output;   // a file for the store's output
};

class GpuStore {
 public:
  // Returns the owner name of a process here. kNotFound: it has no slice of this GPU.
  using OwnerOf = std::function<Result<std::string>(const Peer&)>;

  GpuStore(asio::io_context& io, const Clock& clock, GpuStorePlace place, OwnerOf owner_of);
  GpuStore(const GpuStore&) = delete;

  // Clients may connect from now on; they wait until the store runs.
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
