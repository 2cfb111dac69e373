// share_*: who may run now on one device, and for how much busy time (H2, F3). An Arbiter is a pure
// state machine on a clock that it is handed: events in, permits out. The node daemon hosts one per
// device on a thread of its own; tests and the simulator step it in virtual time.
//
// Units. *Busy* time is device time at the client's own sm: on a CPU the cores' time divided by the
// cores it holds, so a client that never waits is busy `dt` in `dt`. A quota of 200 ‰ is 0.2 busy
// seconds a second.
//
// The meter is asynchronous: charge() may come late, out of order, in pieces, or never. What a
// client could have used since the meter last saw it counts as used until a report says otherwise;
// a client that never reports pays for its whole grants. Use beyond what was granted is debt:
// carried from window to window, bounded by `drain_bound` (one permit overruns by one piece of
// work).
//
// Not thread-safe: one thread owns an arbiter. Invalid calls (unknown client) are ignored where the
// world can cause them (a report after a death), CHECKed where only we can.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/slice.h"

namespace sluice::policy {

using ClientId = uint32_t;

// What placement accepted for a client.
struct ShareClient {
  ClientId id = 0;
  Share sm;
  Quota quota;
  Position position;  // where its rectangle lies; `window`, `planned` and `deadline` keep to it
  // Somebody waits for its answers (inference with an objective); else it runs for its throughput.
  bool has_slo = false;
  Nanos slo{0};       // of one iteration, where the client is to mark them itself
  int tolerance = 0;  // beyond so many ‰ of the shortest an iteration is slow; 0: the arbiter's own
  bool operator==(const ShareClient&) const = default;
};

// May run until it has spent `budget` from now on, or until `valid_until` whatever happens. A
// permit with Time::max() is parked: its client has no work, and keeps it until somebody wants the
// room.
struct Grant {
  ClientId client = 0;
  Nanos budget{0};
  Time valid_until{};
  bool operator==(const Grant&) const = default;
};

// What changes now. Revocations come first: the host carries them out before it grants.
struct Permits {
  std::vector<ClientId> revoke;
  std::vector<Grant> grant;  // new permits and renewals of held ones
  Time next = Time::max();   // call step() again then at the latest
};

class Arbiter {
 public:
  virtual ~Arbiter() = default;

  // Adds a client, or changes what it holds; takes effect at the next step. Refuses (kExhausted)
  // what would make requests that were accepted before impossible to keep.
  virtual Result<void> admit(const ShareClient& client, Time now) = 0;
  virtual void remove(ClientId client, Time now) = 0;

  // Whether the client has work. Wanting is a claim, not use: it costs the client nothing.
  virtual void want(ClientId client, bool wanting, Time now) = 0;

  // `busy` more was used, as seen by the meter up to `seen_until` (earlier than now when late).
  // Charging 0 says that nothing was used until then; saying nothing does not.
  virtual void charge(ClientId client, Nanos busy, Time seen_until, Time now) = 0;

  // The client has nothing in flight and starts nothing without a new permit; until then the sm of
  // one whose permit was revoked or ended counts as held. The host has matched the acknowledgement
  // with the permit's `seq`, so this is never about an older permit; it also ends one in force.
  virtual void drained(ClientId client, Time now) = 0;

  // Hints, from the client's own model server. Arbiters that have no use for one ignore it; nobody
  // gets beyond its limit by one, nor below what the arbiter guarantees by another's.
  //
  // The oldest request that waits at the client should be answered by `due`; Time::max(): none
  // waits.
  virtual void deadline(ClientId /*client*/, Time /*due*/, Time /*now*/) {}
  // One iteration (a batch, a training step) ended: `cycle` passed from its first launch until all
  // was done. Marked by the model server, else by the hook, which sees a program wait for its work.
  // Cycles compare with those of their kind (as many requests, as much work), a number of theirs.
  virtual void iteration(ClientId /*client*/, Nanos /*cycle*/, uint32_t /*kind*/, Time /*now*/) {}

  // Decides. Tolerates a `now` before the last one (time stands still then).
  virtual Permits step(Time now) = 0;

  virtual std::string_view name() const = 0;
};

struct ArbiterConfig {
  Nanos window = Millis(20);        // the period of quotas
  Nanos drain_bound = Millis(200);  // the longest one piece of work; then it counts as drained
  // Busy time that may pass in a second of the clock, in ‰. More than 1000 on a device that is a
  // share of a core: whoever holds has a whole core, and is stopped when the share is used up.
  int pace = 1000;
};

// "planned" (ours, the default), "deadline" (ours), and as baselines "window" (HAS-GPU),
// "multi_token" (FaST-GShare as printed), "introspective" (Dilu), "share_fixed_limit" and
// "share_fixed_request" (MPS-l, MPS-r), "tgs" (TGS).
inline constexpr std::string_view kDefaultArbiter = "planned";
std::vector<std::string> arbiter_names();
// The window that an arbiter is meant to be run with: 20 ms, unless it says otherwise.
Nanos window_of(std::string_view arbiter);
Result<std::unique_ptr<Arbiter>> make_arbiter(std::string_view name, const ArbiterConfig& config);

}  // namespace sluice::policy
