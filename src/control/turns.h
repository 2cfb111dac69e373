// The ticks of the control loop beside its API, on one thread: each polls the cluster, and steps
// the loop once the answers have come. While a tick waits, the API is served.
//
// A peer that does not answer delays one tick by LocalCluster::kAway, and no later tick until it
// answers again.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <utility>

#include "control/cluster_local.h"
#include "control/control.h"
#include "control/waiters.h"

namespace sluice::control {

class Turns {
 public:
  // `quiet` is woken whenever the cluster may have settled. `on_step` is called when the loop's
  // state has changed.
  Turns(boost::asio::io_context& io, Control& control, LocalCluster& cluster, Waiters& quiet,
        std::function<void()> on_step)
      : control_(control),
        cluster_(cluster),
        quiet_(quiet),
        on_step_(std::move(on_step)),
        made_(io),
        pause_(io) {}

  boost::asio::awaitable<void> run();  // for ever
  // Returns after a tick that begins after this call.
  boost::asio::awaitable<void> make();
  // Returns when the cluster has settled, after LocalCluster::kAway at the latest.
  boost::asio::awaitable<void> settle();
  // Returns at once if `turn` is not the last tick (it may be another loop's); else after the next
  // tick, or after `patience`.
  boost::asio::awaitable<void> after(uint64_t turn, Nanos patience);
  uint64_t number() const { return number_; }

 private:
  Control& control_;
  LocalCluster& cluster_;
  Waiters& quiet_;
  const std::function<void()> on_step_;
  Waiters made_;                     // wait for a tick's end
  boost::asio::steady_timer pause_;  // until the next tick
  uint64_t number_ = 0;
  bool asked_ = false;      // for a tick at once
  bool under_way_ = false;  // a tick has begun
};

}  // namespace sluice::control
