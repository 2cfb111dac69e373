// The model store of one memory: serves connections that its keeper hands it, each for one owner
// (docs/design/model-store.md). A connection is a reference: when its last descriptor is closed,
// also because every process that had it was killed, its tensors are released. The keeper decides
// which clients may connect, and for which owner; no message of a client can name another owner.
//
// Runs on its own thread. Thread-safe; ends with its owner, and its clients see that.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "base/fd.h"
#include "store/book.h"
#include "store/memory.h"

namespace sluice::node {

// The only parser of clients' messages: accepts a whole request of a known type with a valid name.
// Pure.
Result<sluice_store_request> parse_store_request(std::span<const std::byte> bytes);

struct StoreUse {
  uint64_t bytes = 0;
  size_t tensors = 0;
  size_t connections = 0;
};

struct StoreServerSettings {
  uint64_t capacity = 0;   // bytes of all tensors
  uint64_t per_owner = 0;  // of one owner's tensors; 0: all
  size_t max_connections = 4096;
};

class StoreServer {
 public:
  StoreServer(std::unique_ptr<StoreMemory> memory, const StoreServerSettings& settings);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;

  // Serves a connected SOCK_SEQPACKET socket. Returns kExhausted if there are too many.
  Result<void> adopt(Fd socket, std::string owner);

  StoreUse use() const;
  // Returns when no connection is left.
  void wait_until_unused() const;

 private:
  struct Connection {
    Fd socket;
    std::string owner;
  };

  void run();
  void on_message(StoreClient client);
  StoreOutcome handle(StoreClient client, const std::string& owner,
                      const sluice_store_request& request);
  StoreOutcome commit(StoreClient client, TensorNumber tensor);
  void carry_out(StoreOutcome outcome);
  std::optional<StoreOutcome> tell(const StoreAnswer& answer);
  Result<StoreHandle> memory_of(const StoreAnswer& answer);
  StoreOutcome drop(StoreClient client);

  const StoreServerSettings settings_;
  const std::unique_ptr<StoreMemory> memory_;
  Fd epoll_, stop_;

  mutable std::mutex mutex_;  // guards all below; the thread holds it while it works
  mutable std::condition_variable emptied_;
  StoreBook book_;
  std::map<StoreClient, Connection> connections_;
  StoreClient last_client_ = 0;
  std::thread thread_;
};

}  // namespace sluice::node
