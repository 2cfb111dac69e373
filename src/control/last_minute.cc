#include "control/last_minute.h"

#include <algorithm>

namespace sluice::control {

// Returns the second in progress.
LastMinute::Second& LastMinute::open() {
  const bool over =
      seconds_.empty() || seconds_.back().at_rest || seconds_.back().elapsed >= kSecond;
  return over ? seconds_.emplace_back() : seconds_.back();
}

void LastMinute::add(Nanos elapsed, double concurrency_seconds, const GapSums& gaps) {
  Second& s = open();
  s.elapsed += elapsed;
  s.concurrency_seconds += concurrency_seconds;
  s.gaps.count += gaps.count;
  s.gaps.sum += gaps.sum;
  s.gaps.squares += gaps.squares;
  held_ += elapsed;
  forget_old();
}

// First fills up the second in progress.
void LastMinute::rest(Nanos elapsed) {
  held_ += elapsed;
  if (!seconds_.empty() && !seconds_.back().at_rest && seconds_.back().elapsed < kSecond) {
    const Nanos part = std::min(elapsed, kSecond - seconds_.back().elapsed);
    seconds_.back().elapsed += part;
    elapsed -= part;
  }
  if (elapsed > Nanos(0)) {
    if (seconds_.empty() || !seconds_.back().at_rest) seconds_.push_back({.at_rest = true});
    seconds_.back().elapsed += elapsed;
  }
  forget_old();
}

void LastMinute::forget_old() {
  while (seconds_.size() > 1 && held_ - seconds_.front().elapsed >= kLength) {
    held_ -= seconds_.front().elapsed;
    seconds_.pop_front();
  }
}

double LastMinute::concurrency_peak() const {
  double peak = 0;
  for (const Second& s : seconds_)
    if (s.elapsed >= kSecond) peak = std::max(peak, s.concurrency_seconds / seconds(s.elapsed));
  return peak;
}

GapSums LastMinute::gaps() const {
  GapSums all;
  for (const Second& s : seconds_) {
    all.count += s.gaps.count;
    all.sum += s.gaps.sum;
    all.squares += s.gaps.squares;
  }
  return all;
}

}  // namespace sluice::control
