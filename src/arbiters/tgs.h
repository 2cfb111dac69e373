// The `tgs` arbiter: TGS's opportunistic rate probing (NSDI '23; constants of its published code),
// as a baseline. Clients with an objective are productive: they may always use their limit. The
// others are opportunistic: they share one rate, a share of their limits. The rate rises until the
// productive clients slow down, and then falls, as TCP probes for bandwidth.
//
// Every five seconds the productive clients' use is compared with the expected use, the most they
// were seen to use. Within 3 % the rate grows: first × 1.5 (slow start), later by 0.025 % of the
// device. Else it falls by 8 %, or to a tenth beyond 9 %. Beyond 12 % twenty times in a row the
// expected use itself is lowered by a fifth. It is measured over the first five samples, and again
// when it has moved by more than a fifth; the first time, the opportunistic clients stand still
// until that is done. They have no bound while no productive client is active.
//
// The unit is busy time where TGS counts kernel blocks (as under `introspective`). Both kinds take
// turns on the device, the client with the least used part of its tokens first; TGS leaves that to
// the GPU. A load that varies by more than 3 % by itself starves the opportunistic clients: that is
// a property of TGS, not of this implementation. Requests are no guarantee. Not thread-safe.
#pragma once

#include <array>

#include "arbiters/choice.h"
#include "arbiters/tokens.h"

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
  Permits take_turns();

  Choice choice_{accounts_};
  bool changed_ = false;  // a client joined, left or was resized
  Phase phase_ = Phase::kAlone;
  double rate_ = 1;                         // of the opportunistic clients' limits
  double expected_ = 0;                     // use of the productive clients per sample
  std::array<double, kSamples> samples_{};  // the latest first
  Nanos used_{0};                           // by the productive clients, in the current sample
  Time sample_end_{};
  int to_measure_ = 0;  // samples left to measure
  int far_off_ = 0;     // successive samples
};

}  // namespace sluice::policy
