// A loop: one io_context on one thread, with state shared by its sessions: kept connections to
// instances, memory for bodies, pipelining sessions, and a sweep that ends what is overdue.
// Everything belongs to its thread; other threads post().
//
// A session is in one of three lists. *Idle*: between requests, the idlest first. *Slow*: within a
// request and waiting for its client, to send the rest or to take the answer; the longest wait
// first. *Busy*: all others. Only a client can fill the first two, so when another connection does
// not fit, the first of them is closed.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "gateway/connection.h"
#include "gateway/dispatcher.h"
#include "gateway/watch.h"

namespace sluice::gateway {

// Buffers for bodies that are kept until the answer begins. The buffer given back last is taken
// next, while the cache holds it. The number in use is bounded: a session without one streams its
// body.
class BodyRooms {
 public:
  static constexpr size_t kSize = 1 << 20;

  explicit BodyRooms(size_t most_out) : most_out_(most_out) {}
  std::unique_ptr<char[]> take();  // nullptr: too many are in use
  void give(std::unique_ptr<char[]> room);

 private:
  static constexpr size_t kMostSpare = 32;
  std::vector<std::unique_ptr<char[]>> spare_;
  const size_t most_out_;
  size_t out_ = 0;
};

// The limits of one loop.
struct LoopLimits {
  size_t connections = 16 * 1024;  // of clients
  size_t slow = 4096;              // of these, within a request and waiting for the client
  size_t slow_of_peer = 1024;      // of those, from one address
  size_t body_rooms = 256;         // bodies of up to 1 MiB that are kept
};

class Loop {
 public:
  Loop(Dispatcher& dispatcher, const Clock& clock, uint64_t seed = 1, LoopLimits limits = {});

  // ---- sessions --------------------------------------------------------------------------------

  // Puts a session at the end of a list. If there are too many slow ones, closes the longest wait;
  // of one address, if that has too many.
  void put(Watch& session, Watch::List list);
  size_t sessions() const { return busy_.size() + idle_.size() + slow_.size(); }
  size_t idle() const { return idle_.size(); }
  size_t slow() const { return slow_.size(); }
  bool has_room() const { return sessions() < limits_.connections; }
  // Closes the idlest session, else the slowest one. Returns false if all are busy.
  bool make_room();

  // Returns when the session may go on with a request that its client sent before it had the last
  // answer. One such request begins in an iteration of the loop, in the order of the calls. So
  // clients that pipeline do not delay clients that wait for their answers.
  Awaitable<void> wait_for_iteration(const Watch& session, Timer& bell);

  // ---- what sessions share ---------------------------------------------------------------------

  // Returns a kept connection to that socket, or nothing. Newest first: the warmest. Its instance
  // may have closed it since the last sweep: a check would cost a call for each request.
  std::unique_ptr<Connection> kept(const std::string& socket);
  void keep(const std::string& socket, std::unique_ptr<Connection> connection);
  // A new connection, and how to connect it: in two steps, so that its owner can cancel the second.
  std::unique_ptr<Connection> unconnected();
  Awaitable<error_code> connect(Connection& connection, const std::string& socket);

  // The buffer through which pieces of bodies pass; never held across a wait.
  std::span<char> scratch() { return scratch_; }

  // Appends random hex digits, for identities: unique, no secrets.
  void put_id(std::string& out, int digits);

  // Sweeps until stop(); spawn once.
  Awaitable<void> sweep_all();
  void stop() { stopping_ = true; }
  bool stopping() const { return stopping_; }

  Time now() const { return clock.now(); }

  asio::io_context io{1};
  Dispatcher& dispatcher;
  const Clock& clock;
  BodyRooms bodies;

 private:
  using Sessions = boost::intrusive::list<Watch>;
  struct Pipelined {
    Timer& bell;
    bool called = false;
  };
  Sessions* of(Watch::List list);
  void give_up(Watch& session);
  void bound_slow(uint64_t peer);
  void call_next_pipelined();
  void sweep(Time now);
  void close_stale();

  const LoopLimits limits_;
  Sessions busy_, idle_, slow_;
  std::unordered_map<uint64_t, size_t> slow_of_peer_;
  std::list<Pipelined*> pipelined_;  // sessions that wait for an iteration
  bool calling_ = false;             // call_next_pipelined() is posted

  std::map<std::string, std::vector<std::unique_ptr<Connection>>> kept_;
  std::vector<char> scratch_;
  Random random_;
  bool stopping_ = false;
};

}  // namespace sluice::gateway
