// The `window` arbiter: HAS-GPU's time tokens, as a baseline. The device is cut in lanes; at any
// instant one client of a lane holds. Within a window each client's request is its turn. Turns
// follow the order of positions and continue where the last window ended. Not work-conserving
// beyond limits: with request = limit (as for the paper's functions) a lane stands idle once each
// client has had its turn. Not thread-safe.
#pragma once

#include <vector>

#include "arbiters/account.h"

namespace sluice::policy {

class WindowArbiter : public AccountedArbiter {
 public:
  explicit WindowArbiter(const ArbiterConfig& config) : AccountedArbiter(config) {}

  // Refuses a lane that overlaps another, a width that is not its lane's, and requests in a lane
  // that add up to more than the whole window. time_begin gives only the order of turns.
  Result<void> admit(const ShareClient& client, Time now) override;
  void remove(ClientId id, Time now) override;
  Permits step(Time now) override;
  std::string_view name() const override { return "window"; }

 private:
  struct Lane {
    Share sm_begin;
    std::vector<size_t> order;  // of turns: indices of accounts
    size_t turn = 0;            // the current or last turn's index
    ClientId last = 0;          // the same, by id
    Time turn_end{};
  };

  void arrange();
  Account& member(const Lane& lane, size_t place) {
    return accounts_.all()[lane.order[(lane.turn + place) % lane.order.size()]];
  }
  // Returns the index, from the current turn, of the client that holds next; the lane's size if
  // none does.
  size_t next_holder(const Lane& lane, Time now);
  void wait_for_turn(Account& account, bool draining, Time now);
  void decide(Lane& lane, Time now, Permits& permits);

  std::vector<Lane> lanes_;
};

}  // namespace sluice::policy
