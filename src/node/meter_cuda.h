// The meter of a device whose work goes on without the processor, a GPU: nobody is believed whom
// the device has not confirmed.
//
//   Lease     the time from a permit's beginning until it has ended and nothing can be in flight
//             any more. In it the client could have used the device, so by default it is charged:
//             who reports nothing, or nothing true, or stands where the device keeps no account,
//             pays for what it held. Of who reports, and whom the account knows, but nothing untrue
//             of it, only the time counts in which it stands behind the gate: on a busy machine it
//             may wake long after its grant.
//   Report    what the client's processes say (ClaimedUse): exact and at hand, and worth nothing
//             by itself.
//   Account   what the device says of each process (DeviceAccount): true, late and coarse.
//
// A client is believed from the first stretch of time in which the device was busy for it and its
// report agrees. From then on the report is charged. Where the account shows more than its
// resolution explains, the difference to the larger of account and lease is charged at once, and
// the client is not believed for a minute. Without fresh confirmation belief ends too. Who leaves
// and attaches again is judged by all that it said (Testimony).
//
// Processes that never attach are unknown here. What the account says of them is charged beside the
// meter (ungated_use.h) and pays for nothing that the attached ones did; who uses the device past a
// lease that runs pays for both.
//
// Drained is who says so and whose last report leaves nothing in flight; else when the work in
// flight must have run. Of one that reports nothing, or was found out, the account tells how long
// its work runs on after its permits; so much longer nobody else has the device. A client whose
// device is kept for it pays for that time, whoever it is.
//
// Pure; the arbiter's thread owns it, as every meter.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "node/claimed_use.h"
#include "node/course.h"
#include "node/device_account.h"
#include "node/meter.h"
#include "node/testimony.h"

namespace sluice::node {

class CudaMeter : public Meter {
 public:
  static constexpr Nanos kLag = Millis(12);        // whoever was silent for so long has stopped
  static constexpr Nanos kNews = Millis(1);        // a process that lives reports within
  static constexpr Nanos kUnmetered = Millis(2);   // may be in flight of who is silent, at least
  static constexpr Nanos kWakeUp = Micros(40);     // from a grant until its holder is awake
  static constexpr Nanos kLook = Micros(100);      // between looks at a page while it drains
  static constexpr Nanos kDistrust = Seconds(60);  // after an untrue report
  static constexpr Nanos kConfirmed = Seconds(5);  // of lease; belief ends without an account of it
  static constexpr Nanos kSkew = Testimony::kSkew;
  static constexpr Nanos kLookBack = Millis(100);  // between looks at the account of who has gone
  static constexpr size_t kMostWitnesses = 512;    // who came and went is forgotten beyond

  // No account: nobody is ever believed.
  CudaMeter(std::shared_ptr<const DeviceAccount> account, Time now);

  std::optional<Reading> poll(Time now, bool resting) override;
  Time last_active() const override { return last_active_; }
  Nanos lag() const override { return kLag; }
  void add_process(const ProcessIdentity& process) override;
  void remove_process(const ProcessIdentity& process) override;
  void report(const ProcessIdentity& process, const sluice_device_report& report,
              Time now) override;
  void granted(Time now) override;
  void revoked(Time now) override;
  bool drained(Time now, Time revoked_at, bool resting) override;
  Time look_again(Time now, Time revoked_at) const override;

  bool believed() const { return believed_; }

 private:
  // A process, however often it attaches.
  struct Witness {
    Testimony testimony;
    int processes = 0;   // of processes_, those that are gone included
    Nanos said{0};       // by those of processes_, while it is added up
    Nanos forgotten{0};  // said by those that were
    Nanos runs_on{0};    // its work, after it has drained by what it says
    int64_t drains = 0;  // of the client, when it was judged last
  };
  // From when it attaches until its work has run.
  struct Process {
    Witness& witness;
    ClaimedUse use;
    bool gone = false;

    const ProcessIdentity& id() const { return witness.testimony.process(); }
  };
  enum class Hold { kNone, kGranted, kDraining };

  void pass(Time now);
  Time counts_from() const;
  bool watched() const;
  void begin_hold(Hold hold);
  void forget_gone();
  Time quiet_by() const;
  bool quiet(const Process& process, Time stopped, bool resting) const;
  Nanos said() const;
  Nanos said_in_sum() const;
  Nanos said_at_most() const;
  Nanos due() const;
  void rebase();
  Witness& witness_of(const ProcessIdentity& process);
  void forget_witnesses();
  void hear_witnesses();
  void judge_all();
  void judge(Witness& witness);
  void judge_together();
  void confirm();
  void contradict(const DeviceUse& truth);
  void learn_how_long_it_runs_on(Witness& witness, int64_t drains);
  Time seen_until() const;

  const std::shared_ptr<const DeviceAccount> account_;
  const Time start_;
  std::list<Witness> witnesses_;
  std::list<Process> processes_;
  Nanos forgotten_{0};  // said by processes that have gone

  Hold hold_ = Hold::kNone;
  Time held_since_{}, granted_at_{}, revoked_at_{};
  int64_t drains_ = 0;    // that are over
  Nanos said_before_{0};  // this hold
  Nanos said_twice_{0};   // in the holds before, by several processes at once
  Nanos lease_{0};        // cumulative, up to now_
  Time now_;

  // Of all processes together: what the account says, and of that what was not charged.
  Time settled_until_;
  Nanos accounted_{0}, rounded_{0}, unpaid_{0};

  bool believed_ = false;
  Time distrusted_until_{};
  Nanos confirmed_lease_{0};  // up to there the account agreed
  // Since belief or hold changed: charged then, and from where lease and report count on.
  struct {
    Nanos charged{0}, lease{0}, said{0};
  } base_;
  Nanos charged_{0};
  Course leases_, charges_;

  bool resting_ = true;
  Time rested_at_;
  Nanos last_said_{0};
  Time last_active_, last_poll_{}, looked_back_{};
};

}  // namespace sluice::node
