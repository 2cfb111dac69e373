// One device as its host sees it, without the host's thread: it stands between the clients'
// observed state and the device's arbiter. It reports to the arbiter which clients want the device
// and what they used. It ends spent permits, notices quiesced clients, and says what to write into
// the clients' pages. The node daemon runs one per device (enforce/arbiter_host.h); tests and the
// simulator run the same code in virtual time:
//
//   const PermitWrites* writes = &device.step(now, observations);   // of all clients
//   while (write_permits(*writes), !writes->revoke.empty())
//     writes = &device.resume(observe writes->revoke again);
//   call step() again at writes->next, or when something happens
//
// Revoking an idle client frees the device at once. The host sees that only after it has written
// the revocation. A step that revokes is therefore resumed with the revoked clients' state after
// it. The number of decisions in a step is bounded.
//
// A pure state machine. Not thread-safe: one thread owns a device, and the device its arbiter.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "arbiters/arbiter.h"

namespace sluice::policy {

struct Reading {
  Nanos busy{0};      // use since the last reading
  Time seen_until{};  // the reading covers all use until then
};

// One iteration of a client's own that ended (Arbiter::iteration).
struct Iteration {
  Nanos cycle{0};
  uint32_t kind = 0;
};

// A client's observed state: the claims of its processes together, its meter's readings, its hints.
struct ClientObservation {
  ClientId client = 0;
  bool waiting = false;  // a thread is blocked at the gate
  bool want = false;     // it has work
  bool resting = true;   // no thread is past the gate
  std::vector<Reading> readings;
  Time last_active{};            // the last moment at which the meter saw it use the device
  Nanos lag{0};                  // use this old has certainly been metered
  Time quiet_by = Time::max();   // see Quiescence; of a client that is quiescing
  Time due = Time::max();        // of its oldest waiting request; max: none waits
  std::vector<Iteration> ended;  // since the last observation
  Progress progress;             // of a GPU's client
};

// A client whose permit has ended has nothing in flight from `by` on. A `by` later than now is an
// estimate: the client is polled again then.
struct Quiescence {
  ClientId client = 0;
  Time by{};
};

// The writes to carry out, in this order.
struct PermitWrites {
  std::vector<ClientId> revoke;
  std::vector<Grant> grant;
  std::vector<Budget> budgets;  // those that changed
  // Whether a waiter exists: a client that becomes idle then notifies the host.
  std::vector<std::pair<ClientId, bool>> contended;
  Time next = Time::max();  // call step() then at the latest; valid when nothing is revoked
};

class HostedDevice {
 public:
  enum class Budgets {
    kCountedByClients,  // a client that has spent its budget stops by itself (a CPU)
    kWatched,           // the host polls when a budget may be spent (a GPU)
  };

  struct Client {
    ClientId id = 0;
    std::optional<Grant> grant;  // in force
    Budget budget;               // of an arbiter that shares a GPU
    Nanos submitted{0};          // Progress::submitted, as last observed
    Nanos spent{0};              // of the grant, as metered
    bool quiescing = false;      // its permit has ended, and it may have work in flight
    Time revoked_at{};
    bool contended = false;
    bool beside = false;   // another client has work, or a permit for it, on the same SMs
    Time alone_since{};    // nothing of the others was in flight until now; max: something is
    bool wanting = false;  // as last reported to the arbiter
    Nanos used{0};         // busy time, cumulative

    bool may_launch() const {
      return grant.has_value() || (budget.allowed > submitted && !budget.held);
    }

   private:
    friend class HostedDevice;
    // The client is expected to use its grant, or its budget, from `expected_since` on: the later
    // of the grant and its last notification. `idle_before` is how long it left earlier grants
    // unused.
    Time expected_since{};
    Nanos idle_before{0};
    bool unmoved = false;    // has left its grant unused, and has not notified since
    Time due = Time::max();  // as last reported to the arbiter
    Time last_active{};      // the next three: as last observed
    Nanos lag{0};
    Time quiet_by = Time::max();
  };

  // REQUIRES: arbiter != nullptr
  HostedDevice(std::unique_ptr<Arbiter> arbiter, Budgets budgets);

  // These change the device; the host calls step() after each.
  //
  // Changes the device's arbiter.
  // REQUIRES: it has no clients; arbiter != nullptr
  void run(std::unique_ptr<Arbiter> arbiter);
  // Adds a client, or changes what it holds. If the arbiter refuses, returns its error and changes
  // nothing.
  Result<void> admit(const ShareClient& share, Time now);
  void remove(ClientId client, Time now);
  // The client rang its doorbell: it is alive, and asks to be polled.
  void notify(ClientId client, Time now);
  // The client's last process has gone, and its permit with it.
  void leave(ClientId client, Time now);

  // Takes the observations, in the order of client ids, and decides. A client without one keeps its
  // last observation. The result is valid until the next call.
  const PermitWrites& step(Time now, std::span<const ClientObservation> observations);
  // Continues the step after the host carried out its revocations.
  const PermitWrites& resume(std::span<const Quiescence> revoked);

  // Returns nullptr if there is no such client. Valid until a client is added or removed.
  const Client* find(ClientId client) const;
  std::span<const Client> clients() const { return clients_; }  // in the order of their ids

 private:
  Client* find_mutable(ClientId client);
  void observe(Client& client, const ClientObservation& seen);
  void meter(Client& client, std::span<const Reading> readings);
  void judge_want(Client& client, const ClientObservation& seen);
  void take_hints(Client& client, const ClientObservation& seen);
  bool notice_quiet(Client& client);
  const PermitWrites& proceed(bool freed);
  void clear_writes();
  void decide();
  void revoke(Client& client);
  void grant(const Grant& grant);
  void share(const Budget& budget);
  static void expect(Client& client, bool could_launch, Time now);
  void look_again(const Client& client);
  void show_contention();
  void show_neighbours();

  std::unique_ptr<Arbiter> arbiter_;
  const Budgets budgets_;
  std::vector<Client> clients_;  // sorted by id
  size_t last_found_ = 0;

  // The current step.
  Time now_{};
  int decisions_ = 0;
  PermitWrites writes_;
};

}  // namespace sluice::policy
