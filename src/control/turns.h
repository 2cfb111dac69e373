// The turns of the control loop beside its API, on one thread: each looks at the cluster, and makes
// the loop's step when what was asked for has come. While a turn waits, the API is served.
//
// A peer that does not answer costs a turn LocalCluster::kAway once, and no later turn anything
// until it answers again.
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
  // Returns when a turn that begins after this call has been made.
  boost::asio::awaitable<void> make();
  // Returns when the cluster has settled, after LocalCluster::kAway at the latest.
  boost::asio::awaitable<void> settle();
  // Returns at once when `turn` is not the last one (it may be another loop's), else when the next
  // has been made, or after `patience`.
  boost::asio::awaitable<void> after(uint64_t turn, Nanos patience);
  uint64_t number() const { return number_; }

 private:
  Control& control_;
  LocalCluster& cluster_;
  Waiters& quiet_;
  const std::function<void()> on_step_;
  Waiters made_;                     // wait for a turn's end
  boost::asio::steady_timer pause_;  // until the next turn
  uint64_t number_ = 0;
  bool asked_ = false;      // for a turn at once
  bool under_way_ = false;  // a turn has begun
};

}  // namespace sluice::control
