// Settling: calls the loop's on_settled() whenever a peer has answered all its calls.
//
// Thread-safe: peers' threads report, the loop's thread sets the call.
#pragma once

#include <functional>
#include <mutex>
#include <utility>

namespace sluice::control {

class Settling {
 public:
  // Replaces the call; the former one does not run any more after this has returned.
  void call(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    call_ = std::move(call);
  }
  // Returns what a peer calls when it is quiet.
  std::function<void()> on_quiet() {
    return [this] {
      const std::lock_guard lock(mutex_);
      if (call_) call_();
    };
  }

 private:
  std::mutex mutex_;
  std::function<void()> call_;
};

}  // namespace sluice::control
