#include "control/minute_peak.h"

namespace sluice::control {

void MinutePeak::add(Time now, double number) {
  constexpr Nanos kLength = Seconds(60);
  while (!falling_.empty() && falling_.back().number <= number) falling_.pop_back();
  falling_.push_back({now, number});
  while (now - falling_.front().time >= kLength) falling_.pop_front();
}

}  // namespace sluice::control
