#include "arbiters/tgs.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice::policy {
namespace {

constexpr Nanos kSample = Seconds(5);
constexpr double kUnharmed = 0.03;
constexpr double kHarmed = 0.09;
constexpr double kFarOff = 0.12;
constexpr int kMostFarOff = 20;
constexpr double kMoved = 0.2;   // measure again
constexpr double kSteady = 0.1;  // a better sample becomes the expected use
constexpr double kSlowStartFactor = 1.5;
constexpr double kDecrease = 0.08;
constexpr double kIncrease = 0.00025;
constexpr double kFirstRate = 0.01;
constexpr double kLeastRate = 0.001;

enum Claim : uint8_t { kWaiting, kParked };

// Returns the used part of the client's tokens, in 1/4096.
int64_t used_part(const Account& a, Time now) {
  return 4096 * (a.limit - a.room_left(now)).count() / std::max<int64_t>(a.limit.count(), 1);
}

}  // namespace

Result<void> TgsArbiter::admit(const ShareClient& client, Time now) {
  SLUICE_TRY(TokenArbiter::admit(client, now));
  changed_ = true;
  return {};
}

void TgsArbiter::remove(ClientId id, Time now) {
  TokenArbiter::remove(id, now);
  changed_ = true;
  const auto left = accounts_.all();
  if (std::none_of(left.begin(), left.end(), [](const Account& a) { return a.client.has_slo; })) {
    phase_ = Phase::kAlone;
    rate_ = 1;
    samples_ = {};
    used_ = Nanos(0);
  }
}

void TgsArbiter::charge(ClientId id, Nanos busy, Time seen_until, Time now) {
  const Account* account = accounts_.find(id);
  if (account != nullptr && account->client.has_slo) used_ += std::max(busy, Nanos(0));
  TokenArbiter::charge(id, busy, seen_until, now);
}

// Returns the highest mean of two successive samples.
double TgsArbiter::best_of_samples() const {
  double best = 0;
  for (int i = 1; i < kSamples; ++i) best = std::max(best, (samples_[i] + samples_[i - 1]) / 2);
  return best;
}

// Takes all samples that ended since the last step; an idle device takes no steps.
void TgsArbiter::take_samples() {
  const Time now = accounts_.now();
  if (sample_end_ == Time{}) sample_end_ = now + kSample;
  for (int i = 0; i < kSamples && sample_end_ <= now; ++i, sample_end_ += kSample)
    probe(seconds(std::exchange(used_, Nanos(0))));
  if (sample_end_ <= now) sample_end_ = now + kSample;
}

void TgsArbiter::probe(double used) {
  std::rotate(samples_.begin(), samples_.end() - 1, samples_.end());
  samples_[0] = used;
  const auto silent = std::count(samples_.begin(), samples_.end(), 0.0);
  if (used == 0 && silent > kSamples / 2) {
    phase_ = Phase::kAlone;
    rate_ = 1;
    return;
  }
  if (phase_ == Phase::kAlone) {
    if (used == 0) return;
    phase_ = Phase::kMeasuring;
    expected_ = 0;
    to_measure_ = kSamples;
    rate_ = 0;
  }
  const double best = best_of_samples();
  if (phase_ != Phase::kMeasuring && std::abs(best - expected_) > kMoved * expected_) {
    phase_ = Phase::kMeasuring;
    expected_ = best;
    to_measure_ = kSamples;
  }
  if (phase_ == Phase::kMeasuring) {
    expected_ = std::max(expected_, best);
    if (--to_measure_ > 0) return;
    phase_ = Phase::kSlowStart;
    rate_ = std::max(rate_, kFirstRate);
    return;
  }
  if (std::abs(best - expected_) <= kSteady * expected_) expected_ = std::max(expected_, best);
  compare(used);
  rate_ = std::clamp(rate_, kLeastRate, 1.0);
}

void TgsArbiter::compare(double used) {
  const double off = std::abs(used - expected_) / expected_;
  if (phase_ == Phase::kSlowStart) {
    rate_ = off <= kUnharmed ? rate_ * kSlowStartFactor : rate_ / kSlowStartFactor;
    if (off > kUnharmed) phase_ = Phase::kAvoidance;
  } else if (off <= kUnharmed) {
    rate_ += kIncrease;
  } else {
    rate_ *= 1 - kDecrease;
    if (off >= kHarmed) {
      phase_ = Phase::kSlowStart;
      rate_ /= 10;
    }
  }
  far_off_ = off >= kFarOff ? far_off_ + 1 : 0;
  if (far_off_ < kMostFarOff) return;
  far_off_ = 0;
  expected_ *= 0.8;
  phase_ = Phase::kSlowStart;
  rate_ /= 2;
}

void TgsArbiter::issue() {
  for (Account& a : accounts_.all()) {
    const double limit = a.client.quota.limit.fraction();
    give(a, a.client.has_slo ? limit : rate_ * limit);
  }
  changed_ = false;
}

Permits TgsArbiter::take_turns() {
  const Time now = accounts_.now();
  Permits permits;
  accounts_.withdraw_excess(permits);
  choice_.clear();
  for (Account& a : accounts_.all()) {
    const bool eligible = a.eligible(now) && (a.owed_left(now) >= kLeastGrant || accounts_.lends());
    if (!eligible && !a.granted()) continue;
    Candidate& c = choice_.add(a, eligible ? kWaiting : kParked);
    c.waits = eligible;
    c.order = used_part(a, now);
  }
  choice_.decide(permits);
  accounts_.park_idle(permits);
  permits.next = std::min(accounts_.next_change(), choice_.next_change());
  return permits;
}

Permits TgsArbiter::step(Time now) {
  const bool new_window = begin_step(now);
  take_samples();
  if (new_window || changed_) issue();
  return take_turns();
}

}  // namespace sluice::policy
