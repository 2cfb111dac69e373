// A loop: one io_context on one thread, with what its sessions share: kept connections to
// instances, memory for bodies, and a sweep that ends what is overdue. Everything belongs to its
// thread; others post().
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "gateway/connection.h"
#include "gateway/dispatcher.h"

namespace sluice::gateway {

// Room for bodies that are kept until the answer begins. The room given back last is taken next,
// while the cache knows it. What may be out at a time is bounded: who gets none streams its body.
class BodyRooms {
 public:
  static constexpr size_t kSize = 1 << 20;

  std::unique_ptr<char[]> take();  // nullptr: too many are out
  void give(std::unique_ptr<char[]> room);

 private:
  static constexpr int kMostOut = 256;
  static constexpr size_t kMostSpare = 32;
  std::vector<std::unique_ptr<char[]>> spare_;
  int out_ = 0;
};

// Something that can be overdue or deserted; the sweep looks at it every 20 ms.
class Watched {
 public:
  virtual ~Watched() = default;
  virtual void sweep(Time now) = 0;
};

class Loop {
 public:
  Loop(Dispatcher& dispatcher, const Clock& clock, uint64_t seed = 1);

  // A kept connection to that socket, or nothing. Newest first: the warmest. Its instance may have
  // closed it since the last sweep: to look would cost a call for each request.
  std::unique_ptr<Connection> kept(const std::string& socket);
  void keep(const std::string& socket, std::unique_ptr<Connection> connection);
  // A new one, and how it is connected; in two steps, so that its owner can cancel the second.
  std::unique_ptr<Connection> unconnected();
  Awaitable<error_code> connect(Connection& connection, const std::string& socket);

  // Where pieces of bodies pass through; never held across a wait.
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
  std::unordered_set<Watched*> sessions;

 private:
  void close_stale();

  std::map<std::string, std::vector<std::unique_ptr<Connection>>> kept_;
  std::vector<char> scratch_;
  Random random_;
  bool stopping_ = false;
};

}  // namespace sluice::gateway
