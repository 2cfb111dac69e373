// One process before the device's account: what it has said that the device did for it, beside what
// the device tells of it. To the account it is one process, however often it attaches (after an
// exec, say, or so that nobody should know it for long), so all that it said counts, until it has
// been gone for long enough to be told of.
//
// Stretches in all of which it was away are none of its testimony's (ungated_use.h). A value; not
// thread-safe.
#pragma once

#include <optional>

#include "node/course.h"
#include "node/device_account.h"
#include "node/process_identity.h"

namespace sluice::node {

class Testimony {
 public:
  static constexpr Nanos kSkew = Millis(5);   // between the clocks of account and report
  static constexpr Nanos kKept = Seconds(3);  // after it left, two stretches of an account at least

  enum class Verdict {
    kNoNews,
    kNotRefuted,  // and too little to prove anything
    kTrue,
    kUntrue,
  };

  Testimony(const ProcessIdentity& process, Time now) : process_(process) { said_.add(now, {}); }

  void attach(Time now);
  void leave(Time now);
  bool attached() const { return attached_ > 0; }
  Time left_at() const { return left_at_; }
  bool outdated(Time now) const { return !attached() && now - left_at_ > kKept; }

  // What it has said in sum, over all times that it attached.
  void hear(Time now, Nanos busy) { said_.add(now, busy); }
  // It has reported something.
  void spoke() { spoke_ = true; }

  // Of a stretch that was not judged before.
  Verdict judge(const std::optional<DeviceUse>& truth, Time now);

  const ProcessIdentity& process() const { return process_; }
  // The account has told of it: until then, and what it told last.
  bool known() const { return judged_until_ > Time{}; }
  Time judged_until() const { return judged_until_; }
  const DeviceUse& truth() const { return truth_; }

 private:
  ProcessIdentity process_;
  Course said_;
  int attached_ = 0;
  Time attached_at_{}, left_at_{};  // last
  bool spoke_ = false;
  Time judged_until_{};
  DeviceUse truth_;
  Nanos agreed_{0};     // busy time of which account and report are of one mind, so far
  Nanos shortfall_{0};  // of what it said, beyond what the account's resolution explains
};

}  // namespace sluice::node
