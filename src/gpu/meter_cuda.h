// The meter of a device whose work goes on without the processor, a GPU. What it charges a client:
//
//   Lease    the time from a permit's beginning until the permit has ended and nothing can be in
//            flight any more. It is charged by default, or the report where that is larger: a
//            client that reports nothing, or that the device's account does not know, pays for
//            the time in which it could have used the device.
//   Report   the sum of what the client's processes report (ReportedUse), exact and at hand.
//            Charged alone once an audit has confirmed it.
//   Audit    the comparison of both with the device's account (UsageAudit), once a second. Use
//            beyond what was charged adds up. Beyond kMargin the client misreports: it pays for
//            that use and all that is found later, and its leases for good. What the account
//            tells of a time in which other clients held the device too says nothing of one of
//            them (DeviceTurns), so meanwhile each pays its lease.
//
// A client that reports that nothing is in flight has drained; any other has when its work must
// have run. Of one that is not charged by its report an audit may show that its work runs on after
// its drains: its next drains last so much longer, and no other client's permit begins meanwhile.
// A drain that lasts is charged in each case.
//
// Pure; the arbiter's thread owns it, as every meter.
#pragma once

#include <list>
#include <memory>

#include "enforce/meter.h"
#include "gpu/device_turns.h"
#include "gpu/reported_use.h"
#include "gpu/usage_audit.h"

namespace sluice::node {

class CudaMeter : public Meter {
 public:
  static constexpr Nanos kLag = Millis(12);        // a client silent for so long has stopped
  static constexpr Nanos kNews = Millis(1);        // a process that lives reports within
  static constexpr Nanos kUnmetered = Millis(2);   // in flight of a silent process, at least
  static constexpr Nanos kWakeUp = Micros(40);     // from a grant until its holder is awake
  static constexpr Nanos kLook = Micros(100);      // between polls of a page while it drains
  static constexpr Nanos kSkew = Millis(5);        // between the clocks of account and report
  static constexpr Nanos kConfirmed = Seconds(5);  // of lease; then an audit must confirm again
  // Of use beyond what was charged and what the account rounds, in sum: as long as the longest work
  // that the meter expects, which may be reported behind the end of the audited interval.
  static constexpr Nanos kMargin = ReportedUse::kMostInFlight;

  static constexpr Nanos kLongestTurn = Seconds(1);  // of another client, as good as always

  // turns: of the device's meters; nullptr: no other client uses the device.
  CudaMeter(std::shared_ptr<const DeviceAccount> account, Time now,
            std::shared_ptr<DeviceTurns> turns = nullptr);

  std::optional<Reading> poll(Time now, bool resting) override;
  Time last_active() const override { return last_active_; }
  Nanos lag() const override { return kLag; }
  void add_process(const ProcessIdentity& process) override;
  void remove_process(const ProcessIdentity& process) override;
  void report(const ProcessIdentity& process, const sluice_device_report& report,
              Time now) override;
  void watch(pid_t pid, Time now) override { audit_.watch(pid, now); }
  Nanos ungated() const override { return ungated_; }
  void granted(Time now) override;
  void revoked(Time now) override;
  bool drained(Time now, Time revoked_at, bool resting) override;
  Time look_again(Time now, Time revoked_at) const override;

  bool confirmed() const { return state_ == State::kConfirmed; }      // charged by its report
  bool misreports() const { return state_ == State::kMisreporting; }  // for good

 private:
  enum class Hold { kNone, kGranted, kDraining };
  enum class State { kUnconfirmed, kConfirmed, kMisreporting };
  // From when it attaches until its work has run.
  struct Process {
    ProcessIdentity id;
    ReportedUse use;
    bool gone = false;
  };

  void pass(Time now);
  Time counts_from() const;
  void begin_hold(Hold hold);
  void forget_gone();
  void audit();
  void take(const UsageAudit::Finding& found);
  void become(State state);
  Time quiet_by() const;
  bool quiet(const Process& process, Time stopped, bool resting) const;
  Nanos reported() const;
  Nanos metered() const;
  void rebase();
  Time seen_until() const;

  const Time start_;
  UsageAudit audit_;
  const std::shared_ptr<DeviceTurns> turns_;
  std::list<Process> processes_;
  Nanos forgotten_{0};  // reported by processes that have gone

  Time now_;
  Hold hold_ = Hold::kNone;
  Time held_since_{}, granted_at_{};
  Nanos held_from_{0};  // charged when the hold began
  double drains_ = 0;   // that are over
  Nanos lease_{0};      // cumulative, up to now_
  // What was charged when state or hold changed last, and from where lease and report count on.
  struct {
    Nanos charged{0}, lease{0}, reported{0};
  } base_;

  State state_ = State::kUnconfirmed;
  Nanos confirmed_lease_{0};  // at the last audit that confirmed the report
  Nanos beyond_{0};           // what was charged, by the audits
  Nanos ungated_{0};          // of that, charged since
  Nanos runs_on_{0};          // the client's work, after its drains
  Nanos charged_{0};

  bool resting_ = true;
  Time rested_at_;
  Nanos last_reported_{0};
  Time last_active_, last_poll_{};
};

}  // namespace sluice::node
