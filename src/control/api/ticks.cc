#include "control/api/ticks.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "wire/http/await.h"

namespace sluice::control {

namespace asio = boost::asio;
using wire::kAwait;
using Clock = std::chrono::steady_clock;

Ticks::Ticks(asio::io_context& io, Control& control, Cluster& cluster,
             std::function<void()> on_step)
    : control_(control),
      cluster_(cluster),
      on_step_(std::move(on_step)),
      settled_(io),
      made_(io),
      pause_(io) {
  cluster_.on_settled([this, &io] { asio::post(io, [this] { settled_.wake(); }); });
}

Ticks::~Ticks() {
  cluster_.on_settled({});
}

asio::awaitable<void> Ticks::run() {
  Clock::time_point next = Clock::now();  // when the next tick is due
  for (;;) {
    if (!asked_) {
      pause_.expires_at(next);
      co_await pause_.async_wait(kAwait);
    }
    asked_ = false;
    under_way_ = true;
    cluster_.poll();
    co_await settle();
    const auto begun = Clock::now();
    control_.step(unix_now());
    on_step_();
    const Nanos took = Clock::now() - begun;
    co_await settle();
    under_way_ = false;
    ++number_;
    made_.wake();
    // On the period; a tick that took longer than one, or came early, sets a new one. Half of the
    // thread's time is for requests.
    const auto now = Clock::now();
    const Nanos step = std::max(control_.next_step(), took);
    next = std::clamp(next + step, now + took, now + step);
  }
}

asio::awaitable<void> Ticks::settle() {
  const auto give_up = Clock::now() + Cluster::kAway;
  while (!cluster_.settled() && Clock::now() < give_up) co_await settled_.wait(give_up);
}

asio::awaitable<void> Ticks::make() {
  const uint64_t wanted = number_ + (under_way_ ? 2 : 1);
  asked_ = true;
  pause_.cancel();
  while (number_ < wanted) co_await after(number_, Cluster::kAway);
}

asio::awaitable<void> Ticks::after(uint64_t tick, Nanos patience) {
  if (number_ == tick) co_await made_.wait(Clock::now() + patience);
}

}  // namespace sluice::control
