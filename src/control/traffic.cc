#include "control/traffic.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace sluice::control {
namespace {

constexpr Nanos kKept = Seconds(60);
constexpr Nanos kLatencyOf = Seconds(10);

// Returns whether nothing was counted in between, and nothing is in progress.
bool same(const ObservedTraffic& a, const ObservedTraffic& b) {
  const auto counters = [](const ObservedTraffic& t) {
    return std::tie(t.requests, t.ok, t.invalid, t.shed, t.failed, t.timed_out, t.gone, t.late,
                    t.cold_starts, t.retried, t.repeated, t.inferences, t.queued, t.in_flight,
                    t.gaps, t.concurrency_seconds);
  };
  return counters(a) == counters(b) && a.queued == 0 && a.in_flight == 0;
}

}  // namespace

uint64_t Traffic::step(const ObservedTraffic& now, Nanos elapsed, bool restarted) {
  if (restarted || now.requests < before_.requests) before_ = {};
  const ObservedTraffic& b = before_;
  if (same(now, b)) {
    rest(elapsed);
    return 0;
  }
  ++changes_;
  Step s{.elapsed = elapsed};
  s.requests = now.requests - b.requests;
  const uint64_t ok = now.ok - b.ok;
  // A request that was refused and came again at once is one.
  const uint64_t repeated = now.repeated - b.repeated, shed = now.shed - b.shed;
  const uint64_t bad =
      (shed - std::min(shed, repeated)) + (now.failed - b.failed) + (now.timed_out - b.timed_out);
  s.violations = (now.late - b.late) + bad;
  s.ended = ok + bad;
  const uint64_t inferences = now.inferences - b.inferences;
  // Arrivals in inferences: requests are known when they arrive, their inferences when they end. A
  // request refused as invalid (400) is no load.
  const uint64_t load = s.requests - std::min(s.requests, now.invalid - b.invalid + repeated);
  const double each =
      now.ok == 0 ? 1.0 : static_cast<double>(now.inferences) / static_cast<double>(now.ok);
  s.inferences =
      static_cast<uint64_t>(std::llround(static_cast<double>(load) * std::max(each, 1.0)));
  s.concurrency_seconds = now.concurrency_seconds - b.concurrency_seconds;
  last_minute_.add(elapsed, s.concurrency_seconds,
                   {now.gaps - b.gaps, now.gap_sum - b.gap_sum, now.gap_squares - b.gap_squares});
  if (ok > 0) {
    s.latency = now.latency.filled_since(b.latency);
    for (const auto& [bucket, count] : s.latency) totals_.latency.restore(bucket, count);
    totals_.latency.restore_sum(totals_.latency.sum() + now.latency.sum() - b.latency.sum());
  }
  totals_.requests += s.requests;
  totals_.invalid += now.invalid - b.invalid;
  totals_.ok += ok;
  totals_.shed += now.shed - b.shed;
  totals_.failed += (now.failed - b.failed) + (now.timed_out - b.timed_out);
  totals_.late += now.late - b.late;
  totals_.cold_starts += now.cold_starts - b.cold_starts;
  totals_.retried += now.retried - b.retried;
  totals_.inferences += inferences;
  untaken_.requests += s.requests;
  untaken_.violations += s.violations;
  queued_ = now.queued;
  in_flight_ = now.in_flight;
  before_ = now;
  const uint64_t arrived = s.inferences;
  keep(std::move(s));
  return arrived;
}

void Traffic::rest(Nanos elapsed) {
  last_minute_.rest(elapsed);
  if (!steps_.empty() && steps_.back().at_rest) {
    steps_.back().elapsed += elapsed;
    forget_old(elapsed);
  } else {
    keep({.elapsed = elapsed, .at_rest = true});
  }
}

void Traffic::keep(Step step) {
  for (const auto& [bucket, count] : step.latency) recent_.latency.restore(bucket, count);
  const Nanos added = step.elapsed;
  steps_.push_back(std::move(step));
  forget_old(added);
}

// Called when the newest step is longer by `added`. What is no longer kept is not recent any more.
void Traffic::forget_old(Nanos added) {
  held_ += added;
  recent_.length += added;
  for (; recent_.length - steps_[recent_.first].elapsed >= kLatencyOf; ++recent_.first) {
    const Step& old = steps_[recent_.first];
    recent_.length -= old.elapsed;
    for (const auto& [bucket, count] : old.latency) recent_.latency.remove(bucket, count);
  }
  while (steps_.size() > 1 && held_ - steps_.front().elapsed >= kKept) {
    held_ -= steps_.front().elapsed;
    steps_.pop_front();
    --recent_.first;
  }
}

// Returns the mean over the newest steps that make up the window, or over all there are.
template <class Member>
double Traffic::per_second(Member member, Nanos window) const {
  double sum = 0;
  Nanos span{0};
  for (auto s = steps_.rbegin(); s != steps_.rend() && span < window; ++s) {
    sum += static_cast<double>((*s).*member);
    span += s->at_rest ? std::min(s->elapsed, window - span) : s->elapsed;
  }
  return span > Nanos(0) ? sum / seconds(span) : 0.0;
}

double Traffic::rate(Nanos window) const {
  return per_second(&Step::inferences, window);
}
double Traffic::request_rate(Nanos window) const {
  return per_second(&Step::requests, window);
}
double Traffic::inferences_per_request() const {
  if (totals_.ok == 0) return 1;
  return std::max(1.0, static_cast<double>(totals_.inferences) / static_cast<double>(totals_.ok));
}
double Traffic::concurrency(Nanos window) const {
  return per_second(&Step::concurrency_seconds, window);
}

Traffic::Gaps Traffic::gaps() const {
  const GapSums all = last_minute_.gaps();
  if (all.count < 10 || all.sum <= 0) return {};
  const auto n = static_cast<double>(all.count);
  const double mean = all.sum / n;
  return {from_seconds(mean), std::sqrt(std::max(0.0, all.squares / n - mean * mean)) / mean};
}

double Traffic::violations(Nanos window) const {
  const double ended = per_second(&Step::ended, window);
  return ended > 0 ? per_second(&Step::violations, window) / ended : 0;
}

Nanos Traffic::latency(double quantile, Nanos window) const {
  Histogram h;
  Nanos span{0};
  for (auto s = steps_.rbegin(); s != steps_.rend() && span < window; ++s) {
    for (const auto& [bucket, count] : s->latency) h.restore(bucket, count);
    span += s->elapsed;
  }
  return h.quantile(quantile);
}

LatencyQuantiles Traffic::latencies() const {
  const Histogram& h = recent_.latency;
  return {h.quantile(0.5), h.quantile(0.95), h.quantile(0.99)};
}

}  // namespace sluice::control
