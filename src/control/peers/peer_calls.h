// The calls to one peer of the control loop (a node daemon, a gateway). A coroutine makes them, one
// after another, on a thread that all peers share. So the loop chooses how long it waits for a
// peer, whatever the peer does. The connection is kept between calls.
//
// All of it is for the loop's thread; the other one calls `server` and `on_quiet`.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "control/peers/peer_thread.h"
#include "wire/http/http_connection.h"

namespace sluice::control {

// How a peer is reached.
struct PeerAddress {
  std::string name;  // for people
  Nanos timeout;     // after which a call has failed
  // Called again after a call that failed: the certificates may be others by then.
  std::function<wire::HttpServerAddress()> server;
};

// Returns the address of a peer that listens on a unix socket.
PeerAddress at_socket(const std::string& path, Nanos timeout);

class PeerCalls {
 public:
  using Clock = std::chrono::steady_clock;

  // `on_quiet`: called whenever the last call has ended. `thread` outlives it, and what `on_quiet`
  // refers to outlives `thread`.
  PeerCalls(PeerThread& thread, PeerAddress at, std::function<void()> on_quiet);
  ~PeerCalls();  // does not wait; a call that has begun is carried on until it or its thread ends
  PeerCalls(const PeerCalls&) = delete;
  PeerCalls& operator=(const PeerCalls&) = delete;

  // Begins GET `target`, whose answer take_poll() returns; does nothing while calls run or an
  // answer has not been taken.
  void poll(std::string_view target);
  // Returns the answer to the last poll once; nothing if there is none (yet).
  std::optional<Result<nlohmann::json>> take_poll();

  // Makes a call and waits at most until `until`. Returns kUnavailable if the call was not begun by
  // then, and will not be; kTimeout if it was begun, and may still be carried out.
  Result<nlohmann::json> call(wire::http::verb verb, std::string_view target, nlohmann::json body,
                              Clock::time_point until);

  // Returns since when calls run or wait; nothing if none does.
  std::optional<Clock::time_point> busy_since() const;
  // Returns whether calls run or wait, and have for less than `patience`.
  bool busy_within(Nanos patience) const;

 private:
  struct Call;
  struct State;
  std::shared_ptr<Call> enqueue(wire::http::verb verb, std::string_view target,
                                nlohmann::json body);  // REQUIRES: the state's mutex is held
  static asio::awaitable<void> run(std::shared_ptr<State> state);

  PeerThread& thread_;
  const std::shared_ptr<State> state_;
};

}  // namespace sluice::control
