// permit.sock, and a socket for each slice: hands pages to gates, and memory to processes that
// allocate. Identity comes from the kernel alone (peer.h); the caller's lookup says which client a
// process belongs to. A process sends one HELLO, or a MEMORY_HELLO and then HOLDs, or a LOOK.
// Anything else, or nothing within a second, ends the connection.
//
// A slice's own socket identifies the slice by itself. It can be mounted into a container, whose
// processes are in no group of ours, and may have no number here. The lookup says whether a process
// that connects there belongs to the slice.
//
// Runs on its own thread, so that connections, however many, never cost the arbiters time.
// Thread-safe; ends with its owner.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <variant>

#include "enforce/arbiter_host.h"
#include "enforce/memory_broker.h"
#include "process/peer.h"

namespace sluice::node {

// The client that an attaching process belongs to.
struct Placement {
  ArbiterHost* host = nullptr;
  ClientRef client;
  MemoryAccount memory = 0;  // 0: its memory is not counted
};

// `device`: which of the slice's devices, from 0. Returns kNotFound if the process holds no slice
// here. Called on the server's thread.
using Lookup = std::function<Result<Placement>(const Peer& peer, uint32_t device)>;

// The only parser of clients' messages. Pure.
using ClientMessage = std::variant<sluice_refusal, sluice_hello, sluice_memory_hello, sluice_hold,
                                   sluice_memory_look>;
ClientMessage parse_message(std::span<const std::byte> bytes);

struct PermitServerConfig {
  std::string path;  // for all clients; made anew; mode 0666
  uint32_t generation = 1;
  int max_connections = 4096;
  int max_connections_per_process = 40;  // a process needs two per device
  int max_unseen_connections = 512;      // of all of a slice's processes without a number here
};

class PermitServer {
 public:
  // The broker, which may be null, outlives the server.
  static Result<std::unique_ptr<PermitServer>> start(const PermitServerConfig& config,
                                                     const Clock& clock, Lookup lookup,
                                                     MemoryBroker* memory = nullptr);
  ~PermitServer();
  PermitServer(const PermitServer&) = delete;

  // Opens a slice's own socket, made anew; mode 0666. From any thread, as close_for().
  Result<void> open_for(const std::string& slice, const std::string& path);
  // After it returns no process can connect there. Open connections stay.
  void close_for(const std::string& slice);

 private:
  struct Listener {
    Fd socket;
    std::string slice, path;
  };
  struct Connection {
    Fd socket;
    std::string slice;
    pid_t peer = 0;
    Time opened{};
    ArbiterHost* host = nullptr;       // attached there …
    ProcessNumber process = 0;         // … as this
    MemoryHolder holder = 0;           // or asks for memory as this
    std::optional<sluice_hold> asked;  // not answered yet
  };

  PermitServer(const PermitServerConfig& config, const Clock& clock, Lookup lookup,
               MemoryBroker* memory, Fd listener);

  static constexpr uint64_t kFirstListener = uint64_t{1} << 63;
  struct Caller {
    Peer peer;
    Placement place;
  };
  std::optional<Caller> identify(const Connection& connection, uint32_t device);

  void run();
  void accept_at(uint64_t listener);
  bool accept_all(const Listener& listener);
  void on_message(uint64_t id);
  bool answer(Connection& connection, std::span<const std::byte> bytes);
  bool answer_hold(Connection& connection);
  void answer_waiting();
  bool greet(Connection& connection, const sluice_hello& hello);
  bool greet(Connection& connection, const sluice_memory_hello& hello);
  bool greet(Connection& connection, const sluice_memory_look& look);
  void close(uint64_t id);
  void close_silent(Time now);
  void hear_listeners(bool hear);
  bool has_room_for(pid_t peer, const std::string& slice) const;

  const PermitServerConfig config_;
  const Clock& clock_;
  const Lookup lookup_;
  MemoryBroker* const memory_;
  Fd epoll_, stop_;
  std::map<uint64_t, Connection> connections_;  // owned by the thread, as the next
  std::set<uint64_t> waiting_;                  // connections with an open question
  uint64_t last_id_ = 2;
  Time hear_again_ = Time::max();  // when the listeners are polled again; max: they are
  Time hear_devices_{};

  std::mutex mutex_;  // guards the next two
  std::map<uint64_t, Listener> listeners_;
  uint64_t last_listener_ = kFirstListener;
  std::thread thread_;
};

}  // namespace sluice::node
