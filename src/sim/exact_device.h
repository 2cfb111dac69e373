// A CPU as it is: the node daemon's HostedDevice with a device's arbiter, and clients that run
// batches under their permits. A client behaves as a model server at its gate:
//
//   - A batch is work, in busy time at the client's own sm, and runs in operators of `grain` each.
//   - Before each operator the client looks at its permit. An operator that began runs to its end.
//   - It rings the doorbell when it begins to wait, and when it becomes idle while others wait.
//   - Beside others that run, its work takes 1 + contention × (the sm of those) times as long.
//   - Where an arbiter lets clients run on more sm than there are, they share them evenly.
//
// Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "arbiters/hosted_device.h"
#include "sim/device.h"

namespace sluice::sim {

class ExactDevice : public SimulatedDevice {
 public:
  explicit ExactDevice(const Physics& physics) : physics_(physics) {}

  Result<void> run(std::string_view arbiter) override;
  Result<void> admit(const policy::ShareClient& share, Time now) override;
  void remove(policy::ClientId id, Time now) override;
  bool empty() const override { return clients_.empty(); }
  void begin(policy::ClientId id, Nanos work, int batch, Time due, Time now) override;
  Time next() const override;
  std::vector<policy::ClientId> step(Time now) override;
  Nanos used(policy::ClientId id, Time) const override { return clients_.at(id).busy; }
  const policy::ShareClient* share_of(policy::ClientId id) const override;
  int64_t steps() const override { return steps_; }

  // Returns the sm of clients that hold a permit or run, in permille.
  int held_sm(Time now) const;

 private:
  struct Client {
    policy::ShareClient share;
    bool permitted = false;
    Nanos budget{0};
    Nanos spent{0};  // of the budget, by its own clock
    Time valid_until{};
    Nanos work{0};  // of the current batch; 0: none
    Nanos done{0};  // of it
    int batch = 0;
    Time due = Time::max();
    std::optional<Time> began;  // the current batch's first operator
    bool running = false;
    Time stops = Time::max();  // when it will pause or end, as things stand …
    Nanos done_then{0};        // … and the work done by then
    bool rang = false;         // it waits, and has notified the host
    bool contended = false;    // others wait, by its page
    Nanos busy{0};             // cumulative
    Nanos reported{0};
    Time last_active{};
    std::vector<policy::Iteration> ended;  // since the last observation

    bool wants() const { return work > Nanos(0); }
    bool may_run(Time now) const { return permitted && now < valid_until && spent < budget; }
    bool waits(Time now) const { return wants() && !running && !may_run(now); }
    bool rests(Time now) const { return wants() ? waits(now) : !running; }
  };

  void pass(Time now);
  std::vector<policy::ClientId> end_batches(Time now);
  void ring_doorbells(Time now);
  void ring(policy::ClientId id, Time now);
  void decide(Time now);
  void observe(Client& client, policy::ClientObservation& seen, Time now);
  Time quiet_by(policy::ClientId id, Time now) const;
  void write_permits(const policy::PermitWrites& writes);
  void start_operators(Time now);
  void plan(Time now);
  Share beside(const Client& client) const;  // sm of the others that run

  const Physics physics_;
  std::optional<policy::HostedDevice> hosted_;
  std::map<policy::ClientId, Client> clients_;
  std::vector<policy::ClientObservation> observations_;
  Time now_{};
  Time next_step_ = Time::max();
  bool step_due_ = false;
  int64_t steps_ = 0;
};

}  // namespace sluice::sim
