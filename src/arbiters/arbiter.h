// share_*: decides which clients may run now on one device, and for how much busy time. An Arbiter
// is a pure state machine on a clock that it is handed: events in, permits out. The node daemon
// hosts one per device on its own thread; tests and the simulator step it in virtual time.
//
// Units. *Busy* time is device time at the client's own sm: on a CPU the cores' time divided by the
// cores it holds, so a client that never waits is busy `dt` in `dt`. A quota of 200 ‰ is 0.2 busy
// seconds a second.
//
// The meter is asynchronous: charge() may come late, out of order, in pieces, or never. What a
// client could have used since its last reading counts as used until a report says otherwise, so a
// client that never reports pays for its whole grants. Use beyond a grant is debt. It carries over
// from window to window, bounded by `drain_bound` (one permit overruns by one piece of work).
//
// Not thread-safe: one thread owns an arbiter. Invalid calls (of an unknown client) are ignored if
// the outside world can cause them (a report after a death), and CHECKed if only this code can.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/device.h"
#include "model/slice.h"

namespace sluice::policy {

using ClientId = uint32_t;

// A client as placement accepted it.
struct ShareClient {
  ClientId id = 0;
  Share sm;
  Quota quota;
  Position position;  // where its rectangle lies; `window`, `planned` and `deadline` keep to it
  // Requests of it have an objective (inference); else it runs for throughput.
  bool has_slo = false;
  Nanos slo{0};       // of one iteration, where the client marks them itself
  int tolerance = 0;  // slow: more than so many ‰ of the shortest; 0: the arbiter's own
  bool operator==(const ShareClient&) const = default;
};

// The client may run until it has spent `budget` from now on, and at most until `valid_until`. A
// permit with Time::max() is parked: its client has no work, and keeps it until another client
// wants the space.
struct Grant {
  ClientId client = 0;
  Nanos budget{0};
  Time valid_until{};
  bool operator==(const Grant&) const = default;
};

// What a client of a GPU reports of its work: cumulative, in the time that each unit is expected to
// take alone at the client's own sm.
struct Progress {
  Nanos submitted{0};
  Nanos finished{0};  // never more than submitted
  Nanos host{0};      // the program's own time between launches, without waits
  Nanos longest{0};   // of a single unit
  // Of the open iteration: when it began (max: none is open), its kind, and `submitted` then.
  Time begun = Time::max();
  uint32_t kind = 0;
  Nanos submitted_before{0};
  bool waits_for_budget = false;  // a launch stands at the gate: no budget, or a hold
  bool waits_for_device = false;  // as much is in flight as may be
  bool waits_for_end = false;     // of something that it has submitted
  Time seen = Time::max();        // when that was so; max: now
};

// The client may submit until its Progress::submitted reaches `allowed`, unless it is held, with at
// most `in_flight` unfinished (near the end of its budget no more than is left of that, but
// kLeastInFlight: the next client's turn begins behind it); one unit always. Several clients may
// launch at once. A changed budget replaces the last one: a total, so no renewal races with what
// the client submits meanwhile.
struct Budget {
  static constexpr Nanos kInFlight = Micros(750);  // unless the arbiter says otherwise
  static constexpr Nanos kLeastInFlight = Micros(150);

  ClientId client = 0;
  Nanos allowed{0};
  Nanos in_flight{0};  // never 0 of an arbiter that shares a GPU
  bool held = false;
  bool beside = false;  // another client has work, or wants to, on the same SMs
  Time alone_since{};   // nothing of theirs was in flight until now; max: something is
  bool operator==(const Budget&) const = default;
};

// Changes that take effect now. Revocations come first: the host carries them out before it grants.
struct Permits {
  std::vector<ClientId> revoke;
  std::vector<Grant> grant;     // new permits, and renewals of held ones
  std::vector<Budget> budgets;  // of an arbiter that shares a GPU: every client's, in order of ids
  Time next = Time::max();      // call step() again then at the latest
};

class Arbiter {
 public:
  virtual ~Arbiter() = default;

  // Adds a client, or changes what it holds, from the next step on. Returns kExhausted if accepted
  // requests could no longer be kept.
  virtual Result<void> admit(const ShareClient& client, Time now) = 0;
  virtual void remove(ClientId client, Time now) = 0;

  // Reports whether the client has work. Wanting is a claim, not use: it costs the client nothing.
  virtual void want(ClientId client, bool wanting, Time now) = 0;

  // Reports that `busy` more was used, as metered up to `seen_until` (earlier than now when late).
  // A charge of 0 says that nothing was used until then; no charge says nothing.
  virtual void charge(ClientId client, Nanos busy, Time seen_until, Time now) = 0;

  // Reports that the client has nothing in flight and starts nothing without a new permit. Until
  // then the sm of a client whose permit was revoked or ended counts as held. The host has matched
  // the acknowledgement with the permit's `seq`, so it never concerns an older permit. It also ends
  // a permit in force.
  virtual void drained(ClientId client, Time now) = 0;

  // Hints, from the client's own model server. An arbiter without a use for one ignores it. No hint
  // takes a client beyond its limit, nor another client below what the arbiter guarantees it.
  //
  // The oldest request that waits at the client should be answered by `due`; Time::max(): none
  // waits.
  virtual void deadline(ClientId /*client*/, Time /*due*/, Time /*now*/) {}
  // One iteration (a batch, a training step) ended: `cycle` passed from its first launch until all
  // its work was done. The model server marks it, else the hook, which sees a program wait for its
  // work. Cycles are comparable within one `kind` (the same number of requests or amount of work).
  virtual void iteration(ClientId /*client*/, Nanos /*cycle*/, uint32_t /*kind*/, Time /*now*/) {}

  // Reports a GPU client's work; an arbiter of CPUs ignores it.
  virtual void progress(ClientId /*client*/, const Progress& /*progress*/, Time /*now*/) {}

  // Decides. A `now` before the last one is taken as the last one.
  virtual Permits step(Time now) = 0;

  virtual std::string_view name() const = 0;
};

struct ArbiterConfig {
  Nanos window = Millis(20);        // the period of quotas
  Nanos drain_bound = Millis(200);  // the longest piece of work; a drain counts as over after it
  // Busy time that may pass in a second of the clock, in ‰. Above 1000 on a device that is a share
  // of a core: its holder has a whole core, and is stopped when the share is used up.
  int pace = 1000;
  // A GPU's clients run side by side within their SMs (MPS); without, on one at a time (slicing).
  bool side_by_side = false;
};

// Ours: "planned" (the default), "shares" (on GPUs alone) and "deadline". Baselines: "window"
// (HAS-GPU), "multi_token" (FaST-GShare as printed), "introspective" (Dilu), "share_fixed_limit"
// and "share_fixed_request" (MPS-l, MPS-r), "tgs" (TGS).
inline constexpr std::string_view kDefaultArbiter = "planned";

// Returns the arbiter that devices of the kind run for a bundle that names `arbiter`: on GPUs
// "shares" in place of "planned", else `arbiter` itself. An arbiter that a user or a request names
// is not translated.
constexpr std::string_view arbiter_on(DeviceKind kind, std::string_view arbiter) {
  return kind == DeviceKind::kCuda && arbiter == "planned" ? "shares" : arbiter;
}
constexpr std::string_view default_arbiter(DeviceKind kind) {
  return arbiter_on(kind, kDefaultArbiter);
}

// Returns the names of all arbiters.
std::vector<std::string> arbiter_names();
// Returns the names of those that devices of the kind can run. A CPU cannot run "shares":
// its pages carry no budgets.
std::vector<std::string> arbiter_names(DeviceKind kind);
// Returns kInvalid, with the allowed names, if devices of the kind cannot run it.
Result<void> check_arbiter(std::string_view name, DeviceKind kind);

// Returns the window that the arbiter is designed for: 20 ms, unless it says otherwise.
Nanos window_of(std::string_view arbiter);
Result<std::unique_ptr<Arbiter>> make_arbiter(std::string_view name, const ArbiterConfig& config);

}  // namespace sluice::policy
