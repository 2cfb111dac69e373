// The calls to one peer of the control loop (the node daemon, the gateway) over its unix socket. A
// thread of their own makes them, one after another, so that the loop chooses how long it waits for
// a peer, whatever the peer does.
//
// All of it is for the loop's thread; the other one calls `on_quiet`.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/result.h"
#include "wire/http/http.h"

namespace sluice::control {

class PeerCalls {
 public:
  using Clock = std::chrono::steady_clock;

  // `timeout`: after which a call has failed. `on_quiet`: called whenever the last call has ended.
  PeerCalls(std::string socket, Nanos timeout, std::function<void()> on_quiet);
  ~PeerCalls();  // waits for the current call, at most its timeout
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

 private:
  struct Call {
    wire::http::verb verb;
    std::string target;
    nlohmann::json body;
    std::optional<Result<nlohmann::json>> answer;
  };

  void run();
  std::shared_ptr<Call> enqueue(Call call);  // REQUIRES: `mutex_` is held

  const std::string socket_;
  const std::function<void()> on_quiet_;
  wire::HttpClient client_;  // owned by the thread
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Call>> waiting_;
  std::shared_ptr<Call> poll_;
  std::optional<Clock::time_point> busy_since_;
  bool under_way_ = false;  // a call is running
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace sluice::control
