// One case of overload: arrivals at a multiple of a gateway's capacity, then at 0.7 of it, and
// their outcomes. One thread.
#pragma once

#include "base/result.h"
#include "tests/support/gateway_bed.h"
#include "tests/support/open_load.h"

namespace sluice::bench {

struct Overload {
  std::vector<std::string> gateway;  // the program with its command
  Nanos service = Millis(50);
  double factor = 1;  // arrivals ÷ capacity
  Nanos lasts = Seconds(15), after = Seconds(6);
  uint64_t seed = 1;
};

struct Outcome {
  Tally all;
  int sent = 0, in_time = 0;       // while the overload lasts
  int admitted = 0;                // … neither refused nor left without an answer
  int refused = 0, explained = 0;  // … with 429; with 429 and Retry-After
  int retry_after_least = 0, retry_after_most = 0;  // seconds
  int unreadable = 0;                               // … left without an answer
  double goodput = 0;                               // in time a second
  // From the end of the overload to the first second in which 99 % are in time; negative: never.
  double normal_after_s = -1;
  double rss_mib = 0;  // the gateway's peak
};

Result<Outcome> overload(const Overload& with);

}  // namespace sluice::bench
