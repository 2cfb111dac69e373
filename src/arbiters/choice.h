// Chooses the clients that get the space of a device: the first of a step's candidates, in order,
// that fit. The others' permits are revoked, and the chosen are granted theirs as soon as the space
// is empty. An arbiter whose permits exclude each other names the candidates and their order; the
// rest is the same for all such arbiters. Not thread-safe; owned by an arbiter, over its accounts.
#pragma once

#include <array>
#include <vector>

#include "arbiters/account.h"

namespace sluice::policy {

struct Candidate {
  Account* account;
  int64_t order = 0;            // of equal claims the smaller first
  Nanos budget = Nanos::max();  // at most, while others wait for the space
  ClientId id;                  // of equal orders: a total order
  uint8_t claim;                // the arbiter's classes, the smaller first
  bool turn_over;               // its turn is over: it comes after the others of its claim
  bool waits = true;            // has work, so that holders block it
  bool barred = false;          // gets nothing now, whatever space is free
  bool chosen = false;

  // The order within a class.
  bool before(const Candidate& other) const {
    if (turn_over != other.turn_over) return other.turn_over;
    if (order != other.order) return order < other.order;
    return id < other.id;
  }
};
inline constexpr int kMostClaims = 7;

class Choice {
 public:
  explicit Choice(Accounts& accounts) : accounts_(accounts) {}

  // A step's candidates: all clients that may run, and all that hold a permit (a parked one does
  // not wait). The reference is valid until the next call.
  void clear() { candidates_.clear(); }
  Candidate& add(Account& account, uint8_t claim) {
    const bool turn_over = !account.granted() || accounts_.now() >= turn_end(account);
    return candidates_.emplace_back(Candidate{
        .account = &account, .id = account.client.id, .claim = claim, .turn_over = turn_over});
  }
  std::vector<Candidate>& candidates() { return candidates_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }

  // Fills the device with candidates; revokes and grants permits accordingly.
  void decide(Permits& permits);

  // Returns when a contended budget is spent or a turn ends; Time::max() if neither will.
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
  Share unchosen_;                  // left over by the chosen
  Share narrowest_waiting_;         // of the waiting candidates not chosen; above kWhole: none
};

}  // namespace sluice::policy
