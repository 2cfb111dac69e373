// The `shares` arbiter, ours, for GPUs. Several clients launch at once, each from a budget of
// device time; a program that launches from Python leaves most of the device to the others.
// (Permits that exclude each other leave it idle: bench/run shares.)
//
// Time is what work is expected to take alone at the client's own sm (Progress). A client's
// *virtual time* v is the work that it has submitted ÷ its request. Clients of overlapping SMs form
// a *lane* (without MPS there is one), whose virtual time V is the least of its backlogged
// clients'.
//
//   backlogged  has work and waits for budget or device, or is device-bound and has work; not if
//               its limit or a hold keeps it. (Counted, those would stop V, and so every client.)
//   bound       device-bound: its units take longer than three quarters of its own time between
//               launches. The others are host-bound. Judged by the client's own times: contention
//               makes every client wait.
//
// Rules:
//   budget      A client may submit request × (V + kAhead − v) more. One that is not backlogged
//               keeps at most kCredit of unused virtual time. A unit starts while any budget is
//               left; what it takes beyond is debt, in v.
//   turns       Of bound clients without an objective in a lane, the one with the least v has all
//               the budget for a quantum, the others none: clients that each keep the device busy
//               gain nothing from each other's gaps, and lose to switching. The next turn begins
//               when the last holder has submitted its quantum: what it has in flight hides the
//               hand-over. Host-bound clients and those with an objective wait for no turn.
//   late hold   While an iteration of a client with an objective would miss its tolerance unless it
//               had the device from now on, clients without an objective launch nothing; except
//               those that are owed time: the guarantee comes first. The hold begins at begun +
//               tolerance × shortest − busy − in flight, and ends with the iteration, or once it
//               has taken twice its tolerance. The first iterations of a kind are held for from
//               their beginning: the shortest is learnt from them.
//   limit       A token bucket of limit × kAhead.
//   audit       A client whose costs are to be examined (CostAudit) has its turns to itself:
//               meanwhile no other client of the lane launches. Reported costs count as the audit
//               corrects them.
//
// Guarantee (start-time fair queueing, Goyal et al. '96): two clients of a lane that are backlogged
// throughout an interval get virtual time in it that differs by at most q1/r1 + q2/r2, where r is
// the request and q = quantum + longest unit + in flight. Requests in a lane add up to at most 1.
//
// Not thread-safe.
#pragma once

#include <cmath>
#include <vector>

#include "arbiters/arbiter.h"
#include "arbiters/cost_audit.h"

namespace sluice::policy {

class SharesArbiter : public Arbiter {
 public:
  // docs/design/gpu-shares.md says what each rests on.
  static constexpr Nanos kTick = Millis(1);
  static constexpr Nanos kPoll = Micros(100);     // where an exclusive turn waits for work to end
  static constexpr Nanos kAhead = Millis(40);     // virtual time: a 5 % client has 2 ms
  static constexpr Nanos kCredit = Millis(20);    // virtual time
  static constexpr Nanos kQuantum = Millis(10);   // half of it where a client has an objective
  static constexpr Nanos kOwedMost = Millis(50);  // × request, and as much borrowed
  static constexpr Nanos kInFlight = Micros(750);
  static constexpr Nanos kInFlightOfHost = Millis(3);  // host-bound: it launches ahead of its slice
  static constexpr Nanos kInFlightBorrowed = Micros(200);  // beside an objective's bound client
  // ‰ of the shortest iteration, where a slice states none; side by side a hold is over sooner.
  static constexpr int kTolerance = 1000, kToleranceSideBySide = 1100;
  static constexpr Nanos kWakesWithin = Millis(12);
  static constexpr size_t kKinds = 8;
  static constexpr int kLearnt = 8;  // iterations of a kind that are held for as a whole …
  static constexpr Nanos kLearnWithin = Millis(50);  // … if they last no longer
  static constexpr Nanos kPatience = Millis(100);    // of an examination with others' iterations

  explicit SharesArbiter(const ArbiterConfig& config) : config_(config) {}

  // Refuses requests that add up to more than the device, or than a lane.
  Result<void> admit(const ShareClient& client, Time now) override;
  void remove(ClientId client, Time) override;
  void want(ClientId client, bool wanting, Time) override;
  void charge(ClientId, Nanos, Time, Time) override {}  // Progress says it
  void drained(ClientId, Time) override {}              // nothing is exclusive
  void iteration(ClientId client, Nanos cycle, uint32_t kind, Time now) override;
  void progress(ClientId client, const Progress& progress, Time) override;
  Permits step(Time now) override;
  std::string_view name() const override { return "shares"; }

 private:
  struct Kind {  // of iterations
    uint32_t number = 0;
    Nanos shortest{0};  // 0: none was seen
    Nanos busy{0};      // what it submits
    int seen = 0;       // how often, up to kLearnt
    Time seen_at{};
  };
  struct Client {
    // Hot: every step reads these.
    ClientId id = 0;
    uint32_t lane = 0;
    double request = 0, limit = 0;  // of the lane's time
    bool has_slo = false, limited = false;
    bool wanting = false;
    bool wants_more = false;            // this step, like the next two
    bool capped = false, held = false;  // by its limit; by a hold
    bool was_busy = false, was_in_flight = false, in_flight_since_last = false;
    bool was_unfinished = false, unfinished_since_last = false;
    Time alone_since{};  // this and the next as in its budget
    Nanos allowed{0};
    bool was_held = false;
    Time may_since{};  // it has had budget, and was not held
    Progress seen;
    Nanos counted{0};   // of what it submitted, in the next three
    Nanos finished{0};  // as of the last step
    double v = 0;       // ns beyond the lane's V
    double bucket = 0;  // ns left of the limit
    double owed = 0;    // ns of its request that it wanted and did not use; negative: borrowed
    double cost = 0, host = 0;  // ns, of the last launches
    Nanos iteration_work{0};    // that the last iteration submitted
    Time wanted_at{};
    CostAudit audit{Time{}};
    ShareClient share;
    std::vector<Kind> kinds;  // at most kKinds
  };
  struct Turn {
    ClientId holder = 0;
    Nanos until{0};  // of its submitted work
    Time since{};
    bool exclusive = false;
    bool forced = false;             // goes on beside an iteration
    Time alone_since = Time::max();  // exclusive: nothing of the others is in flight
  };
  struct Lane {
    double least = HUGE_VAL;  // v of its backlogged clients
    int wanting = 0;
    int active = 0;          // since the last step
    int unfinished = 0;      // the same, as reported
    int unfinished_now = 0;  // now
    int rivals = 0;          // clients that take turns
    int backlogged = 0;
    bool has_objective = false;        // a client with an objective was active lately
    bool has_bound_objective = false;  // and is bound
    int open_iterations = 0;
    bool hold = false;
  };

  Client* find(ClientId id);
  void form_lanes();
  void set_shares(Client& client, const ShareClient& share) const;
  bool overlap(const Client& a, const Client& b) const;
  static bool bound(const Client& client) {
    return client.cost * client.audit.factor() > 0.75 * client.host;
  }
  static bool waits(const Client& client) {
    return client.seen.waits_for_device || client.seen.waits_for_end;
  }
  // Believed until it has had time to wake up: a client with budget that is not held does not wait.
  bool waits_for_budget(const Client& client) const {
    const bool may = client.seen.submitted < client.allowed && !client.was_held;
    return client.seen.waits_for_budget && (!may || now_ - client.may_since < kWakesWithin);
  }
  bool unfinished(const Client& client) const;
  bool in_flight(const Client& client) const;
  bool busy(const Client& client) const;
  bool active(const Client& client) const;
  bool wants_more(const Client& client) const;
  static bool backlogged(const Client& client) {
    return client.wants_more && !client.capped && !client.held;
  }
  bool takes_turns(const Client& client) const;
  bool iterations_beside(const Client& client) const {
    return lanes_[client.lane].open_iterations >
           (client.has_slo && client.seen.begun < Time::max());
  }
  bool overdue(const Client& client) const { return client.audit.due(now_ - kPatience); }
  bool examined(const Client& client) const;
  const Turn* turn_of(const Client& client) const;
  bool beside_exclusive(const Client& client);
  void count(Client& client, double passed);
  void advance();
  void hold();
  void look_around(double passed);
  void examine(Nanos passed);
  bool alone(const Client& client) const;
  double least_ratio() const;
  // When the holder of an exclusive turn may launch: once the others' work has run, as far as that
  // is reported in time.
  Time began(const Turn& turn) const {
    return std::min(turn.alone_since, turn.since + config_.drain_bound);
  }
  bool is_over(Turn& turn);
  void pass_turns();
  void set_budget(Client& client, Budget& budget);

  const ArbiterConfig config_;
  std::vector<Client> clients_;  // by id
  size_t last_found_ = 0;
  std::vector<Lane> lanes_;
  std::vector<Turn> turns_;
  Time now_{};
  Time next_hold_ = Time::max();
};

}  // namespace sluice::policy
