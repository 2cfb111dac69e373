// permit.sock: hands pages to gates. Identity comes from the kernel alone (peer.h); which client a
// process belongs to says the caller's lookup. What a process sends is one HELLO; anything else, or
// nothing within a second, ends the connection. A thread of its own, so that connections, however
// many, never cost the arbiters time. Thread-safe; ends with its owner.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <variant>

#include "node/arbiter_host.h"
#include "node/peer.h"

namespace sluice::node {

// Where an attaching process belongs.
struct Placement {
  ArbiterHost* host = nullptr;
  ClientRef client;
};

// `device`: which of the process's devices, from 0. kNotFound: it holds no slice here.
// Called on the server's thread.
using Lookup = std::function<Result<Placement>(const Peer& peer, uint32_t device)>;

// The only parser of what clients send. Pure.
std::variant<sluice_hello, sluice_refusal> parse_hello(std::span<const std::byte> bytes);

struct PermitServerConfig {
  std::string path;  // made anew; mode 0666
  uint32_t generation = 1;
  int max_connections = 4096;
  int max_connections_per_process = 16;  // one per device is what a process needs
};

class PermitServer {
 public:
  static Result<std::unique_ptr<PermitServer>> start(const PermitServerConfig& config,
                                                     const Clock& clock, Lookup lookup);
  ~PermitServer();
  PermitServer(const PermitServer&) = delete;

 private:
  struct Connection {
    Fd socket;
    pid_t peer = 0;
    Time opened{};
    ArbiterHost* host = nullptr;  // attached there …
    ProcessNumber process = 0;    // … as this
  };

  PermitServer(const PermitServerConfig& config, const Clock& clock, Lookup lookup, Fd listener);

  void run();
  void accept_all();
  void on_message(uint64_t id);
  void greet(Connection& connection, const sluice_hello& hello);
  void close(uint64_t id);
  void close_silent(Time now);
  bool has_room_for(pid_t peer) const;
  void watch(int fd, uint64_t id);

  const PermitServerConfig config_;
  const Clock& clock_;
  const Lookup lookup_;
  Fd listener_, epoll_, stop_;
  std::map<uint64_t, Connection> connections_;  // the thread's own, as the next
  uint64_t last_id_ = 1;
  std::thread thread_;
};

}  // namespace sluice::node
