// The `introspective` arbiter: Dilu's Algorithm 2 (ASPLOS '25), as a baseline. In every window,
// tokens move between request and limit. The move depends on how long the iterations of instances
// with an objective take against the shortest seen (`ratio`; the paper's ΔT is ratio − 1).
//
// An instance with an objective is in one of these states. The device's state is the most severe of
// its living instances', and decides what the others are issued:
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
// A slice may set another ratio than 1.6 (`tolerance`; Dilu has 1.3 for language models). The ratio
// is that to the shortest cycle of the iteration's kind, because a cycle that does more work is not
// slower. The first cycle of a kind changes nothing.
//
// Where the paper is open or differs from its published code:
//   - The paper's ÷ ΔT would raise the tokens below ΔT = 1, so we divide by 1 + ΔT.
//   - `last` starts at the request.
//   - The published code takes ratios above 4 for noise. They are the worst starvation of all, so
//     we clamp them and do not ignore them.
//   - A cycle older than a second is unknown and raises nothing.
//   - The emergency of an idle instance ends, as that of a removed one does.
//   - The shortest cycle grows by 1 % a second, so that one odd iteration does not rule for ever.
//   - The third way to recover is the published code's, and so is the floor of 1 % of the request.
//     By the paper no instance would regain what an emergency took while its instance is busy.
//
// The unit is busy nanoseconds, not the paper's kernel blocks. A block may last a microsecond or a
// second, so a share of a maximum number of blocks is no share of anything. That maximum (`Max`;
// published: the same ten million for every GPU) would have to be measured per device and per
// program. The most busy time that a window can hold is known: the window, whatever the device and
// program.
//
// As in the paper, every instance with work holds its tokens from the window's begin, whatever the
// others hold, and the device is shared among those that run. (An instance that held it alone would
// leave it idle between its launches.) A permit outlives its window, so that a late renewal stops
// nothing; use after the window's end counts in the next. Tokens that are left are lost. Work
// beyond them is debt against the next windows.
//
// One arbiter is one device: an emergency concerns no other device. An instance's iterations move
// tokens between its request and its limit, and take from the others all but 1 % of their request:
// requests are no guarantee here. Not thread-safe.
#pragma once

#include <array>
#include <map>

#include "arbiters/tokens.h"

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
    int calm = 0;  // successive iterations below the mark of recovery
  };

  void issue(bool new_window);
  void assess(Instance& instance, const Account& account, bool others_idle);
  double share_of(const Instance& instance, const Account& account, bool others_idle,
                  bool new_window);
  bool idle(const Account& account);

  std::map<ClientId, Instance> instances_;
  State state_ = State::kNone;  // the device's
  double ratio_ = 1;            // the worst of those in an emergency
  bool changed_ = false;        // a client joined, left or was resized
};

}  // namespace sluice::policy
