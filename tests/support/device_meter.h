// A meter that uses only the device's own account. For tests only.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "enforce/meter.h"

namespace sluice {

class DeviceMeter : public node::Meter {
 public:
  // Returns how long the device has worked for a process, its client's last one.
  using Used = std::function<Nanos(pid_t)>;

  explicit DeviceMeter(Used used) : used_(std::move(used)) {}

  void add_process(const node::ProcessIdentity& process) override { process_ = process.pid; }
  // An ended process is forgotten.
  void look() override { total_ = std::max(used_(process_), total_); }
  std::optional<node::Reading> poll(Time now, bool) override {
    if (std::exchange(last_poll_, now) == now) return std::nullopt;
    if (total_ != last_) last_active_ = now;
    return node::Reading{total_ - std::exchange(last_, total_), now};
  }
  Time last_active() const override { return last_active_; }
  Nanos lag() const override { return Millis(1); }

 private:
  const Used used_;
  pid_t process_ = 0;
  Nanos total_{0}, last_{0};
  Time last_poll_{}, last_active_{};
};

}  // namespace sluice
