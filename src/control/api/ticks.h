// The ticks of the control loop beside its API, on one thread: each polls the cluster, and steps
// the loop once the answers have come. While a tick waits, the API is served.
//
// A node or gateway that does not answer delays one tick by Cluster::kAway, and no later tick until
// it answers again.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>

#include "control/api/waiters.h"
#include "control/cluster.h"
#include "control/control.h"

namespace sluice::control {

class Ticks {
 public:
  // `on_step` is called when the loop's state has changed. The references outlive it; `io` does not
  // run any more when it ends.
  Ticks(boost::asio::io_context& io, Control& control, Cluster& cluster,
        std::function<void()> on_step);
  ~Ticks();
  Ticks(const Ticks&) = delete;

  boost::asio::awaitable<void> run();  // for ever
  // Returns after a tick that begins after this call.
  boost::asio::awaitable<void> make();
  // Returns when the cluster has settled, after Cluster::kAway at the latest.
  boost::asio::awaitable<void> settle();
  // Returns at once if `tick` is not the last tick (it may be another loop's); else after the next
  // tick, or after `patience`.
  boost::asio::awaitable<void> after(uint64_t tick, Nanos patience);
  uint64_t number() const { return number_; }

 private:
  Control& control_;
  Cluster& cluster_;
  const std::function<void()> on_step_;
  Waiters settled_;                  // wait for the cluster to settle
  Waiters made_;                     // wait for a tick's end
  boost::asio::steady_timer pause_;  // until the next tick
  uint64_t number_ = 0;
  bool asked_ = false;      // for a tick at once
  bool under_way_ = false;  // a tick has begun
};

}  // namespace sluice::control
