#include "enforce/hints.h"

#include <algorithm>
#include <chrono>

namespace sluice::node {
namespace {

constexpr Nanos kFarthest = std::chrono::hours(1);

Time believable_due(uint64_t due_ns, Time now) {
  const auto farthest = static_cast<uint64_t>((now + kFarthest).time_since_epoch().count());
  if (due_ns == 0 || due_ns > farthest) return Time::max();
  return std::max(Time(Nanos(due_ns)), now);
}

Nanos believable_cycle(uint64_t cycle_ns, Nanos most) {
  return Nanos(std::min(cycle_ns, static_cast<uint64_t>(std::max(most, Nanos(0)).count())));
}

}  // namespace

Hints::Told Hints::hear(const HintWords& words, Time now) {
  Told told;
  if (words.due_ns != last_.due_ns) due_ = believable_due(words.due_ns, now);
  told.due = due_;
  if (words.iterations != last_.iterations) {
    told.cycle = believable_cycle(words.cycle_ns, now - ended_after_);
    told.kind = words.kind;
    ended_after_ = looked_;
  }
  if (words.begun_ns != 0) {
    const auto most = static_cast<uint64_t>(now.time_since_epoch().count());
    told.begun = std::clamp(Time(Nanos(std::min(words.begun_ns, most))), ended_after_, now);
    told.begun_submitted = words.begun_submitted_ns;
  }
  told.last_kind = words.kind;
  last_ = words;
  looked_ = now;
  return told;
}

}  // namespace sluice::node
