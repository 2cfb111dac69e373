// Who of many clients gets the room of a device: a step's candidates in an order, of whom the first
// that fit are chosen; the others' permits are taken back, and the chosen get theirs as soon as the
// room is empty. Arbiters with permits that exclude each other say who the candidates are and in
// which order; the rest is the same for all of them, and is here. Not thread-safe; owned by an
// arbiter, over its accounts.
#pragma once

#include <array>
#include <vector>

#include "policy/share_account.h"

namespace sluice::policy {

struct Candidate {
  Account* account;
  int64_t order = 0;            // of equal claims the smaller first
  Nanos budget = Nanos::max();  // at most, while others wait for the room
  ClientId id;                  // of equal orders: a total order
  uint8_t claim;                // the arbiter's classes, the smaller first
  bool turn_over;               // after those of the same claim whose turn is not
  bool waits = true;            // has work, so that holders stand in its way
  bool barred = false;          // gets nothing now, whatever room there is
  bool chosen = false;

  // Within a class.
  bool before(const Candidate& other) const {
    if (turn_over != other.turn_over) return other.turn_over;
    if (order != other.order) return order < other.order;
    return id < other.id;
  }
};
inline constexpr int kMostClaims = 6;

class Choice {
 public:
  explicit Choice(Accounts& accounts) : accounts_(accounts) {}

  // A step's candidates: all who may run, and all who hold a permit (a parked one waits for
  // nothing). The reference is good until the next call.
  void clear() { candidates_.clear(); }
  Candidate& add(Account& account, uint8_t claim) {
    const bool turn_over = !account.granted() || accounts_.now() >= turn_end(account);
    return candidates_.emplace_back(Candidate{
        .account = &account, .id = account.client.id, .claim = claim, .turn_over = turn_over});
  }
  std::vector<Candidate>& candidates() { return candidates_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }

  // Fills the device; revokes and grants accordingly.
  void decide(Permits& permits);

  // When a budget that others wait for is spent, or a turn over.
  Time next_change() const;
  Time turn_end(const Account& holder) const {
    return holder.held_since + accounts_.config().window / kTurnsPerWindow;
  }

 private:
  void fill();
  bool contended(const Account& holder) const;
  void turn_away(Permits& permits);
  void grant(Permits& permits);

  Accounts& accounts_;
  std::vector<Candidate> candidates_;  // in the order of ids; kept for its memory, as the next two
  std::array<std::vector<Candidate*>, kMostClaims> classes_;
  std::vector<Candidate*> chosen_;  // in order
  Share unchosen_;                  // left over by those chosen
  Share narrowest_waiting_;         // of those not chosen that wait; above kWhole: none
};

}  // namespace sluice::policy
