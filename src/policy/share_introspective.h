// The `introspective` arbiter: Dilu's Algorithm 2 (specs/dilu.md, D3, readings a to h), as a
// baseline. Tokens move between request and limit in every window, by how long the iterations of
// the instances with an objective take against the shortest seen (`ratio`; the paper's ΔT is
// ratio − 1).
//
// An instance with an objective is in one of these states; the device's state is the most severe of
// its living instances' (b), and what the others are issued follows from it:
//
//   state        when                                   it has                 the others have
//   none         there is no such instance              —                      limit
//   recovery     it was idle for 100 windows            request                last × 1.3, ≤ limit
//   recovery     all others were                        last × 1.3, ≤ limit    last × 1.3, ≤ limit
//   recovery     once after five iterations below 1.2   request                last × 1.3, ≤ limit
//   contention   else                                   request                last
//   emergency    ratio > 1.6, and on until it is < 1.2  limit                  min(request, last) ÷
//                                                                              ratio
//
// A slice may say another ratio than 1.6 (`tolerance`; Dilu has 1.3 for language models). The ratio
// is that to the shortest cycle of the iteration's kind, for what does more work is not slower; the
// first of a kind says nothing.
//
// Readings: the paper's ÷ ΔT would raise the tokens below ΔT = 1, so ÷ (1 + ΔT) (a). `last` starts
// at the request (c). Ratios above 4, which the published code takes for noise, are the worst
// starvation of all: clamped, not ignored. A cycle that is a second old is unknown and raises
// nothing (e); an idle instance's emergency ends, as a removed one's does (g); the shortest cycle
// seen grows by 1 % a second, so that one odd iteration does not rule for ever (h). The third way
// to recover is the published code's; by the paper nobody would ever get back what an emergency
// took while its instance is busy. So is the floor of 1 % of the request.
//
// The unit is busy nanoseconds, not the paper's kernel blocks: a block may last a microsecond or a
// second, so that a share of a maximum of blocks is a share of nothing in particular, and that
// maximum (`Max`; published: the same ten million for every GPU) would have to be measured per
// device and again per program. Of busy time, which is measured on each device as it passes, the
// most that a window can hold is known: the window, whatever the device's size and the program's
// blocks.
// For the same reason holders exclude each other in space here, as under every other arbiter: at
// sm = 1000, where Dilu's quotas are profiled, instances take turns, and a cycle grows by the turns
// that it waits for.
//
// One arbiter is one device: nothing is shared, so an emergency concerns no other device. What an
// instance says of its iterations moves tokens between its request and its limit, and takes from
// the others what lies above 1 % of theirs: requests are no guarantee here. Not thread-safe.
#pragma once

#include <array>
#include <map>

#include "policy/share_tokens.h"

namespace sluice::policy {

class IntrospectiveArbiter : public TokenArbiter {
 public:
  static constexpr Nanos kWindow = Millis(5);  // Dilu's

  explicit IntrospectiveArbiter(const ArbiterConfig& config) : TokenArbiter(config) {}

  Result<void> admit(const ShareClient& client, Time now) override;
  void remove(ClientId id, Time now) override;
  void iteration(ClientId id, Nanos cycle, uint32_t kind, Time now) override;
  Permits step(Time now) override;
  std::string_view name() const override { return "introspective"; }

 private:
  enum class State { kNone, kRecovery, kContention, kEmergency };  // by severity
  struct Kind {                                                    // of iterations
    uint32_t number = 0;
    double shortest = 0;  // cycle, in ns; 0: none was seen
    Time seen_at{};
  };
  struct Instance {
    Kind& kind(uint32_t number);

    double last = 0;  // issued, as a share of the window
    State state = State::kNone;
    std::array<Kind, 16> kinds;
    double ratio = 1;  // of the last cycle to the shortest of its kind
    Time iterated_at{};
    int calm = 0;  // iterations in a row below the mark of recovery
  };

  void issue(bool new_window);
  void assess(Instance& instance, const Account& account, bool others_idle);
  double share_of(const Instance& instance, const Account& account, bool others_idle,
                  bool new_window);
  bool idle(const Account& account);

  std::map<ClientId, Instance> instances_;
  State state_ = State::kNone;  // the device's
  double ratio_ = 1;            // the worst of those in an emergency
  bool changed_ = false;        // somebody came, went or was resized
};

}  // namespace sluice::policy
