// The `tgs` arbiter: TGS's opportunistic rate probing (NSDI'23; constants of its published code),
// as a baseline. Clients with an objective are productive: they may always use their limit. The
// others are opportunistic: they share one rate, a share of their limits, which is raised until the
// productive ones slow down, and lowered then, as TCP probes for bandwidth.
//
// Every five seconds what the productive clients used is compared with the most they were seen to
// use. Within 3 %: the rate grows, first × 1.5 (slow start), later by 0.025 % of the device. Else
// it falls by 8 %, or to a tenth beyond 9 %. Beyond 12 % twenty times in a row the expectation
// itself is lowered by a fifth. What is expected is measured first, for five samples, and again
// when it moved by more than a fifth; the first time the opportunistic clients stand still until
// that is done. While no productive one is active they have no bound.
//
// The unit is busy time where TGS counts kernel blocks (as under `introspective`), and both kinds
// take turns on the device where TGS leaves that to the GPU. That a load of requests varies by more
// than 3 % by itself starves the opportunistic clients is a property of TGS, not of this reading.
// Requests are no guarantee. Not thread-safe.
#pragma once

#include <array>

#include "policy/share_tokens.h"

namespace sluice::policy {

class TgsArbiter : public TokenArbiter {
 public:
  explicit TgsArbiter(const ArbiterConfig& config) : TokenArbiter(config) {}

  Result<void> admit(const ShareClient& client, Time now) override;
  void remove(ClientId id, Time now) override;
  void charge(ClientId id, Nanos busy, Time seen_until, Time now) override;
  Permits step(Time now) override;
  std::string_view name() const override { return "tgs"; }

 private:
  enum class Phase { kAlone, kMeasuring, kSlowStart, kAvoidance };
  static constexpr int kSamples = 5;

  void take_samples();
  void probe(double used);
  void compare(double used);
  double best_of_samples() const;
  void issue();

  bool changed_ = false;  // somebody came, went or was resized
  Phase phase_ = Phase::kAlone;
  double rate_ = 1;                         // of the opportunistic clients' limits
  double expected_ = 0;                     // of the productive ones, per sample
  std::array<double, kSamples> samples_{};  // the latest first
  Nanos used_{0};                           // by the productive ones, in the sample under way
  Time sample_end_{};
  int to_measure_ = 0;  // samples
  int far_off_ = 0;     // samples in a row
};

}  // namespace sluice::policy
