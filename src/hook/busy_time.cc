#include "hook/busy_time.h"

#include <string.h>

namespace sluice::hook {
namespace {

uint64_t earlier(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}
uint64_t later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

}  // namespace

uint64_t BusyTime::cover(uint64_t begin, uint64_t end) {
  if (begin >= end) return 0;
  unsigned first = 0;
  while (first < count_ && kept_[first].end < begin) ++first;
  unsigned last = first;
  uint64_t known = 0;
  Stretch merged{begin, end};
  for (; last < count_ && kept_[last].begin <= end; ++last) {
    const Stretch& s = kept_[last];
    known += earlier(end, s.end) - later(begin, s.begin);
    merged = {earlier(merged.begin, s.begin), later(merged.end, s.end)};
  }
  replace(first, last, merged);
  return end - begin - known;
}

uint64_t BusyTime::place(uint64_t begin, uint64_t end, uint64_t ns) {
  uint64_t placed = 0;
  while (begin < end && placed < ns) {
    unsigned i = 0;
    while (i < count_ && kept_[i].end <= begin) ++i;  // the first that ends after `begin`
    const bool any = i < count_ && kept_[i].begin < end;
    const uint64_t taken = any ? kept_[i].begin : end, next = any ? kept_[i].end : end;
    if (begin < taken) placed += cover(begin, earlier(taken, begin + ns - placed));
    begin = next;
  }
  return placed;
}

void BusyTime::replace(unsigned first, unsigned last, Stretch merged) {
  if (first == last) {  // a new one
    if (count_ == kKept) {
      if (first == 0) return;  // older than all that are kept
      memmove(kept_, kept_ + 1, --first * sizeof *kept_);
    } else {
      memmove(kept_ + first + 1, kept_ + first, (count_ - first) * sizeof *kept_);
      ++count_;
    }
  } else {
    memmove(kept_ + first + 1, kept_ + last, (count_ - last) * sizeof *kept_);
    count_ -= last - first - 1;
  }
  kept_[first] = merged;
}

}  // namespace sluice::hook
