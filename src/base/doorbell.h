// A doorbell between two threads; a ring is kept until it is waited for.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/clock.h"

namespace sluice {

class Doorbell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_all();
  }
  void wait(Nanos most = Nanos::max()) {
    std::unique_lock lock(mutex_);
    const auto rung = [this] { return std::exchange(rung_, false); };
    if (most == Nanos::max())
      changed_.wait(lock, rung);
    else
      changed_.wait_for(lock, most, rung);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

}  // namespace sluice
