#include "control/turns.h"

#include <algorithm>

#include "wire/await.h"

namespace sluice::control {

namespace asio = boost::asio;
using wire::kAwait;
using Clock = std::chrono::steady_clock;

asio::awaitable<void> Turns::run() {
  Clock::time_point next = Clock::now();  // when the next tick is due
  for (;;) {
    if (!asked_) {
      pause_.expires_at(next);
      co_await pause_.async_wait(kAwait);
    }
    asked_ = false;
    under_way_ = true;
    cluster_.look();
    co_await settle();
    control_.step(unix_now());
    on_step_();
    co_await settle();
    under_way_ = false;
    ++number_;
    made_.wake();
    // On the period; a tick that took longer than one, or came early, sets a new one.
    const auto now = Clock::now();
    const Nanos step = control_.next_step();
    next = std::clamp(next + step, now, now + step);
  }
}

asio::awaitable<void> Turns::settle() {
  const auto give_up = Clock::now() + LocalCluster::kAway;
  while (!cluster_.settled() && Clock::now() < give_up) co_await quiet_.wait(give_up);
}

asio::awaitable<void> Turns::make() {
  const uint64_t wanted = number_ + (under_way_ ? 2 : 1);
  asked_ = true;
  pause_.cancel();
  while (number_ < wanted) co_await after(number_, LocalCluster::kAway);
}

asio::awaitable<void> Turns::after(uint64_t turn, Nanos patience) {
  if (number_ == turn) co_await made_.wait(Clock::now() + patience);
}

}  // namespace sluice::control
