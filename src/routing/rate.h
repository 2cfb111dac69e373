// What an instance's answers alone tell of it. Pure values, not thread-safe; time is handed in.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace sluice::policy {

// How many inferences an instance answers per busy second. It is busy while it has a request.
// Inferences and busy time decay alike, so that the answers of one batch, which come together,
// count as one batch.
class ServiceRate {
 public:
  // The instance had no request and has one now.
  void begin(Time now) { counted_to_ = now; }
  // A request ended there; `inferences` is 0 if it was not answered.
  void end(uint64_t inferences, Time now) {
    constexpr double kKept = 1 - 1.0 / 16;
    inferences_ = inferences_ * kKept + static_cast<double>(inferences);
    busy_seconds_ = busy_seconds_ * kKept + seconds(now - counted_to_);
    counted_to_ = now;
    per_second_ = busy_seconds_ > 0 ? inferences_ / busy_seconds_ : 0;
  }
  // Returns 0 before the first answer.
  double per_second() const { return per_second_; }

 private:
  double inferences_ = 0, busy_seconds_ = 0, per_second_ = 0;
  Time counted_to_{};
};

// Which part of an instance's recent answers came later than the objective. Old answers fade: the
// last 22 make half of it.
class LateFraction {
 public:
  void add(bool late) { value_ += ((late ? 1.0 : 0.0) - value_) / 32; }
  double value() const { return value_; }  // 0 before the first answer

 private:
  double value_ = 0;
};

}  // namespace sluice::policy
