// The load under which decisions are timed: clients in four lanes fill the device, every other
// client has an objective, and all have work. Each client uses its whole grant, and its drain is
// known at once. Each step comes at the moment that the last one asked for; before it, the host
// reports what every client has used. For benchmarks. Not thread-safe.
#pragma once

#include <algorithm>
#include <vector>

#include "arbiters/arbiter.h"
#include "base/check.h"

namespace sluice::policy {

class BusyDevice {
 public:
  BusyDevice(std::string_view arbiter, int clients)
      : arbiter_(*make_arbiter(arbiter, {})), clients_(clients) {
    constexpr int kLanes = 4;
    const int turn = 1000 * kLanes / clients;
    for (int i = 0; i < clients; ++i) {
      const int lane = i % kLanes;
      const auto admitted = arbiter_->admit({.id = static_cast<ClientId>(i),
                                             .sm = {1000 / kLanes},
                                             .quota = {{turn}, {1000}},
                                             .position = {{lane * 250}, {i / kLanes * turn}},
                                             .has_slo = i % 2 == 0},
                                            now_);
      SLUICE_CHECK(admitted.ok(), admitted.error().message);
      arbiter_->want(i, true, now_);
    }
  }

  // One decision, with the host's reports before it.
  void step() {
    report();
    decide();
  }

  int64_t grants() const { return grants_; }

 private:
  struct Client {
    bool holds = false;
    Nanos left{0};
  };

  void report() {
    for (size_t id = 0; id < clients_.size(); ++id) {
      Client& c = clients_[id];
      const Nanos busy = c.holds ? std::min(now_ - last_, c.left) : Nanos(0);
      c.left -= busy;
      arbiter_->charge(id, busy, now_, now_);
      if (!c.holds || c.left > Nanos(0)) continue;
      arbiter_->drained(id, now_);
      c.holds = false;
    }
  }

  void decide() {
    const Permits permits = arbiter_->step(now_);
    for (const ClientId id : permits.revoke) clients_[id].left = Nanos(0);
    for (const Grant& g : permits.grant) clients_[g.client] = {true, g.budget};
    grants_ += static_cast<int64_t>(permits.grant.size());
    last_ = now_;
    now_ = std::max(permits.revoke.empty() ? permits.next : now_, now_ + Micros(10));
  }

  std::unique_ptr<Arbiter> arbiter_;
  std::vector<Client> clients_;
  Time now_{std::chrono::hours(1)};
  Time last_ = now_;
  int64_t grants_ = 0;
};

}  // namespace sluice::policy
