// Coroutines that wait for the same event, each with its own patience.
//
// Threads: all on the io_context's one thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <set>

#include "wire/http/await.h"

namespace sluice::control {

class Waiters {
 public:
  explicit Waiters(boost::asio::io_context& io) : io_(io) {}

  // Returns at the next wake(), or at `until`.
  boost::asio::awaitable<void> wait(std::chrono::steady_clock::time_point until) {
    boost::asio::steady_timer timer(io_, until);
    timers_.insert(&timer);
    co_await timer.async_wait(wire::kAwait);
    timers_.erase(&timer);
  }
  void wake() {
    for (boost::asio::steady_timer* timer : timers_) timer->cancel();
  }

 private:
  boost::asio::io_context& io_;
  std::set<boost::asio::steady_timer*> timers_;
};

}  // namespace sluice::control
