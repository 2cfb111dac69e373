// The simulator's events in the order of their times; those of one time in the order in which they
// were added, so that a run is the same everywhere. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace sluice::sim {

class EventQueue {
 public:
  void at(Time when, std::function<void()> what) {
    heap_.push_back({when, next_number_++, std::move(what)});
    std::ranges::push_heap(heap_, later);
  }
  // Returns Time::max() if there is none.
  Time next() const { return heap_.empty() ? Time::max() : heap_.front().when; }
  // Takes out the next event, which the caller then runs.
  // REQUIRES: there is one.
  std::function<void()> take() {
    std::ranges::pop_heap(heap_, later);
    std::function<void()> what = std::move(heap_.back().what);
    heap_.pop_back();
    return what;
  }

 private:
  struct Event {
    Time when{};
    uint64_t number = 0;
    std::function<void()> what;
  };
  static bool later(const Event& a, const Event& b) {
    return std::pair(a.when, a.number) > std::pair(b.when, b.number);
  }

  std::vector<Event> heap_;
  uint64_t next_number_ = 0;
};

}  // namespace sluice::sim
