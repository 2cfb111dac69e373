// The meter of a GPU, whose work goes on without the processor. A client is charged what its
// processes report that they submit, in the time that each unit is expected to take alone
// (ReportedWork). The arbiter's audit checks these costs (arbiters/cost_audit.h).
//
// A process that reports nothing while the device's own account (DeviceAccount) shows it at work
// uses the device past the hook. The client is charged what the account shows, once a second or so.
//
// A client that reports that nothing is in flight has drained; any other has when its work must
// have run.
//
// Pure; the arbiter's thread owns it, as every meter.
#pragma once

#include <list>
#include <map>
#include <memory>

#include "enforce/device_account.h"
#include "enforce/meter.h"
#include "gpu/reported_work.h"

namespace sluice::node {

class CudaMeter : public Meter {
 public:
  static constexpr Nanos kLag = Millis(12);        // a client silent for so long has stopped
  static constexpr Nanos kNews = Millis(1);        // a process that lives reports within
  static constexpr Nanos kUnreported = Millis(2);  // in flight of a process that never reports
  static constexpr Nanos kLook = Micros(100);      // between polls of a page while it drains
  static constexpr Nanos kSkew = Millis(5);        // between the clocks of account and report
  static constexpr size_t kMostWatched = 512;      // processes; beyond, the account is not believed

  // account: nullptr stands for a device that keeps none.
  CudaMeter(std::shared_ptr<const DeviceAccount> account, Time now);

  std::optional<Reading> poll(Time now, bool resting) override;
  Time last_active() const override { return last_active_; }
  Nanos lag() const override { return kLag; }
  void add_process(const ProcessIdentity& process) override;
  void remove_process(const ProcessIdentity& process) override;
  void report(const ProcessIdentity& process, const sluice_device_report& report,
              Time now) override;
  policy::Progress progress() const override;
  void watch(pid_t pid, Time now) override;
  Nanos ungated() const override { return ungated_; }
  bool drained(Time now, Time revoked_at, bool resting) override;
  Time look_again(Time now, Time revoked_at) const override;

 private:
  // From when it attaches until its work has run.
  struct Process {
    ProcessIdentity id;
    ReportedWork work;
    bool gone = false;
  };

  void forget_gone();
  Nanos submitted() const;
  bool works(const Process& process) const;
  Time quiet_by() const;
  bool quiet(const Process& process, Time stopped, bool resting) const;

  const std::shared_ptr<const DeviceAccount> account_;
  std::list<Process> processes_;
  Nanos forgotten_{0};  // submitted by processes that have gone
  Nanos ungated_{0};
  std::map<pid_t, Time> accounted_until_;  // of the processes that were watched

  Time now_;
  Nanos charged_{0};
  Nanos last_submitted_{0}, last_finished_{0};
  bool resting_ = true;
  Time rested_at_;
  Time last_active_, last_poll_{};
};

}  // namespace sluice::node
