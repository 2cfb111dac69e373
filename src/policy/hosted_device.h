// One device as its host sees it, without the host's thread: between what clients show and the
// device's arbiter. It tells the arbiter who wants the device and what was used, ends permits that
// are spent, notices what has quiesced, and says what is to be written into the clients' pages. The
// node daemon runs one per device (node/arbiter_host.h); tests and the simulator run the same one
// in virtual time:
//
//   const PermitWrites* writes = &device.step(now, observations);   // of all clients
//   while (carry_out(*writes), !writes->revoke.empty())
//     writes = &device.resume(look at each of writes->revoke again);
//   call step() again at writes->next, or when something happens
//
// A revocation that finds its client at rest frees the device at once. That can only be seen after
// the revocation is written, so a step that revokes is resumed with what the revoked clients show
// then. The number of decisions in a step is bounded.
//
// A pure state machine. Not thread-safe: one thread owns a device, and the device its arbiter.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "policy/share.h"

namespace sluice::policy {

struct Reading {
  Nanos busy{0};      // more than the readings before
  Time seen_until{};  // and this is all until then
};

// One iteration of a client's own that ended (Arbiter::iteration).
struct Iteration {
  Nanos cycle{0};
  uint32_t kind = 0;
};

// What a client shows: the claims of its processes together, its meter's readings, its hints.
struct ClientObservation {
  ClientId client = 0;
  bool waiting = false;  // a thread is blocked at the gate
  bool want = false;     // it has work
  bool resting = true;   // no thread is past the gate
  std::vector<Reading> readings;
  Time last_active{};            // the last moment at which the meter saw it use the device
  Nanos lag{0};                  // use that is this old is seen for certain
  Time quiet_by = Time::max();   // see Quiescence; of a client that is quiescing
  Time due = Time::max();        // of its oldest waiting request; max: none waits
  std::vector<Iteration> ended;  // since the last observation
};

// A client whose permit has ended has nothing in flight from `by` on. A later `by` than now is an
// estimate: the client is looked at again then.
struct Quiescence {
  ClientId client = 0;
  Time by{};
};

// What is to be written, in this order.
struct PermitWrites {
  std::vector<ClientId> revoke;
  std::vector<Grant> grant;
  // Whether others wait: a client that becomes idle then notifies the host.
  std::vector<std::pair<ClientId, bool>> contended;
  Time next = Time::max();  // call step() then at the latest; valid when nothing is revoked
};

class HostedDevice {
 public:
  enum class Budgets {
    kCountedByClients,  // a client that has spent its budget stops by itself (a CPU)
    kWatched,           // the host looks when a budget may be spent (a GPU)
  };

  struct Client {
    ClientId id = 0;
    std::optional<Grant> grant;  // in force
    Nanos spent{0};              // of the grant, as the meter shows
    bool quiescing = false;      // its permit has ended, and it may have work in flight
    Time revoked_at{};
    bool contended = false;
    bool wanting = false;  // as the arbiter knows it
    Nanos used{0};         // busy time, cumulative
    Nanos ungated{0};      // of that, what charge() reported

   private:
    friend class HostedDevice;
    // The client is expected to use its grant from `expected_since` on: the later of its grant and
    // its last notification. `idle_before` is how long it left the grants before that unused.
    Time expected_since{};
    Nanos idle_before{0};
    bool unmoved = false;    // did nothing with its grant, and has not notified since
    Time due = Time::max();  // as the arbiter knows it
    Time last_active{};      // the next three: as last observed
    Nanos lag{0};
    Time quiet_by = Time::max();
  };

  // REQUIRES: arbiter != nullptr
  HostedDevice(std::unique_ptr<Arbiter> arbiter, Budgets budgets);

  // These change the device; the host calls step() after each.
  //
  // Adds a client, or changes what it holds; refuses what the arbiter refuses, and changes nothing
  // then.
  Result<void> admit(const ShareClient& share, Time now);
  void remove(ClientId client, Time now);
  // The client rang its doorbell: it lives, and wants to be looked at.
  void notify(ClientId client, Time now);
  // The client's last process has gone, and its permit with it.
  void leave(ClientId client, Time now);
  // `busy` was used past the gate, where the client's meter does not see it.
  void charge(ClientId client, Nanos busy, Time seen_until, Time now);

  // Takes in what all clients show, in the order of their ids, and decides. A client that is left
  // out shows what it showed last. The result is valid until the next call.
  const PermitWrites& step(Time now, std::span<const ClientObservation> observations);
  // Continues the step after its revocations were carried out.
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
  void look_again(const Client& client);
  void show_contention();

  std::unique_ptr<Arbiter> arbiter_;
  const Budgets budgets_;
  std::vector<Client> clients_;  // sorted by id
  size_t last_found_ = 0;

  // The step under way.
  Time now_{};
  int decisions_ = 0;
  PermitWrites writes_;
};

}  // namespace sluice::policy
