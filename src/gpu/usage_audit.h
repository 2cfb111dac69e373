// Compares what a client of a GPU was charged with what the device's own account (DeviceAccount)
// shows of its processes, once a second. The account is late, so the client's sums are kept as a
// time series and compared over the interval of which the account tells.
//
// To the account a process is one, however often it attaches. One that has left is kept until the
// account must have shown what it did. A sample counts if it began after the process attached
// first, and before it left. A process that never attached counts while it is watched.
//
// Pure; not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "enforce/device_account.h"

namespace sluice::node {

class UsageAudit {
 public:
  static constexpr Nanos kEvery = Seconds(1);
  static constexpr Nanos kSampleEvery = Millis(100);  // the account has the newest samples alone
  static constexpr Nanos kKept = Seconds(3);          // after a process left: two samples at least
  static constexpr Nanos kWatched = Seconds(1);       // since the last call of watch()
  static constexpr size_t kMostProcesses = 512;       // beyond, those that left are forgotten
  static constexpr Nanos kHistory = Seconds(5), kStep = Millis(5);

  // Of a client, cumulative.
  struct Sums {
    Nanos charged{0}, reported{0};
    double drains = 0;
  };
  struct Finding {
    Nanos accounted{0}, resolution{0};
    Sums own;  // over the same interval
  };

  // account: nullptr stands for a device that keeps none.
  UsageAudit(std::shared_ptr<const DeviceAccount> account, Time now);

  void attach(pid_t pid, Time now);
  void leave(pid_t pid, Time now);
  void watch(pid_t pid, Time now);
  // Returns nothing while no audit is due, or the account shows nothing new. Of processes that
  // have attached, no sample counts that began before alone_since (device_turns.h).
  std::optional<Finding> step(Time now, const Sums& sums, Time alone_since = {});

 private:
  struct Process {
    Time since, left_at{}, sampled_until{};  // left_at: where it is watched, a moment to come
    int attached = 0;
    bool has_attached = false;
  };
  void sample(pid_t pid, Process& process, Time now, Time alone_since);
  Sums at(Time t) const;

  const std::shared_ptr<const DeviceAccount> account_;
  std::map<pid_t, Process> processes_;
  std::deque<std::pair<Time, Sums>> history_;
  Time sampled_at_{}, audited_at_{}, audited_until_{};
  Time from_ = Time::max(), until_{};  // of the samples since the last audit
  Finding open_;                       // their sums
};

}  // namespace sluice::node
