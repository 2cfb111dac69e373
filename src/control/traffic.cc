#include "control/traffic.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace sluice::control {
namespace {

constexpr Nanos kKept = Seconds(60);
constexpr Nanos kPeakOver = Millis(900);

// Returns whether nothing was counted in between, and nothing is in progress.
bool same(const ObservedTraffic& a, const ObservedTraffic& b) {
  const auto counters = [](const ObservedTraffic& t) {
    return std::tie(t.requests, t.ok, t.invalid, t.shed, t.failed, t.timed_out, t.gone, t.late,
                    t.cold_starts, t.retried, t.inferences, t.queued, t.in_flight, t.gaps,
                    t.concurrency_seconds);
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
  const uint64_t bad =
      (now.shed - b.shed) + (now.failed - b.failed) + (now.timed_out - b.timed_out);
  s.violations = (now.late - b.late) + bad;
  s.ended = ok + bad;
  const uint64_t inferences = now.inferences - b.inferences;
  // Arrivals in inferences: requests are known when they arrive, their inferences when they end. A
  // request refused as invalid (400) is no load.
  const uint64_t load = s.requests - std::min(s.requests, now.invalid - b.invalid);
  const double each =
      now.ok == 0 ? 1.0 : static_cast<double>(now.inferences) / static_cast<double>(now.ok);
  s.inferences =
      static_cast<uint64_t>(std::llround(static_cast<double>(load) * std::max(each, 1.0)));
  s.concurrency_seconds = now.concurrency_seconds - b.concurrency_seconds;
  s.gaps = now.gaps - b.gaps;
  s.gap_sum = now.gap_sum - b.gap_sum;
  s.gap_squares = now.gap_squares - b.gap_squares;
  if (ok > 0) {
    const Histogram latency = now.latency.since(b.latency);
    s.latency = latency.filled();
    totals_.latency += latency;
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
  if (!steps_.empty() && steps_.back().at_rest) {
    steps_.back().elapsed += elapsed;
    held_ += elapsed;
    forget_old();
  } else {
    keep({.elapsed = elapsed, .at_rest = true});
  }
}

void Traffic::keep(Step step) {
  held_ += step.elapsed;
  steps_.push_back(std::move(step));
  forget_old();
}

void Traffic::forget_old() {
  while (steps_.size() > 1 && held_ - steps_.front().elapsed >= kKept) {
    held_ -= steps_.front().elapsed;
    steps_.pop_front();
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

double Traffic::concurrency_peak() const {
  double peak = 0, sum = 0;
  Nanos span{0};
  for (const Step& s : steps_) {
    sum += s.concurrency_seconds;
    span += s.at_rest ? std::min(s.elapsed, kPeakOver - span) : s.elapsed;
    if (span < kPeakOver) continue;
    peak = std::max(peak, sum / seconds(span));
    sum = 0;
    span = Nanos(0);
  }
  return peak;
}

Traffic::Gaps Traffic::gaps() const {
  double n = 0, sum = 0, squares = 0;
  for (const Step& s : steps_) {
    n += static_cast<double>(s.gaps);
    sum += s.gap_sum;
    squares += s.gap_squares;
  }
  if (n < 10 || sum <= 0) return {};
  const double mean = sum / n;
  return {from_seconds(mean), std::sqrt(std::max(0.0, squares / n - mean * mean)) / mean};
}

double Traffic::violations(Nanos window) const {
  const double ended = per_second(&Step::ended, window);
  return ended > 0 ? per_second(&Step::violations, window) / ended : 0;
}

Histogram Traffic::latency_histogram(Nanos window) const {
  Histogram h;
  Nanos span{0};
  for (auto s = steps_.rbegin(); s != steps_.rend() && span < window; ++s) {
    for (const auto& [bucket, count] : s->latency) h.restore(bucket, count);
    span += s->elapsed;
  }
  return h;
}

Nanos Traffic::latency(double quantile, Nanos window) const {
  return latency_histogram(window).quantile(quantile);
}

LatencyQuantiles Traffic::latencies(Nanos window) const {
  const Histogram h = latency_histogram(window);
  return {h.quantile(0.5), h.quantile(0.95), h.quantile(0.99)};
}

}  // namespace sluice::control
