// A model's statistics since it was loaded.
//
// Thread-safe: the thread that runs the model writes, the server reads.
#pragma once

#include <mutex>

#include "wire/json/model_statistics.h"

namespace sluice::runtime {

class Statistics {
 public:
  void succeeded(int inferences, Nanos whole, Nanos queue, const wire::ComputeReport& report,
                 UnixMillis now) {
    const std::lock_guard lock(mutex_);
    all_.last_inference = now;
    all_.succeeded(static_cast<uint64_t>(inferences), whole, queue, report);
  }
  void failed(Nanos whole) {
    const std::lock_guard lock(mutex_);
    all_.failed(whole);
  }
  wire::ModelStatistics all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  wire::ModelStatistics all_;
};

}  // namespace sluice::runtime
