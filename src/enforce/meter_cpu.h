// The CPU's meter: the kernel's counter of an instance. With a cgroup it is the cgroup's (all
// threads of all processes, dead ones too). Else it is the CPU clocks of the attached processes;
// their descendants are unseen until they attach.
//
// Busy time is CPU time ÷ cores held: cpu_ns × 1000 / millicores of the client's sm.
//
// Both counters know a running thread only up to the last scheduler tick (4 ms at HZ=250: reads
// every 0.5 ms gave 0, 0, …, 4000 µs), but are exact for a stopped one. The clock of a single
// thread would be exact, but the kernel shows it only to its own process. So an unchanged counter
// means "nothing used" at once only for a client that rests, else after kLag. Until then the meter
// reports nothing, and the arbiter assumes use. Later use is charged when the thread stops or a
// tick passes.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "enforce/meter.h"

namespace sluice::node {

// Returns the busy time that can pass on so many millicores in a second of the clock, in ‰
// (ArbiterConfig): a holder of a share of a core runs on a whole one.
int pace_on(int millicores);

class CpuCounter {
 public:
  virtual ~CpuCounter() = default;
  virtual Nanos read() = 0;  // cumulative, never decreases
  virtual void add_process(const ProcessIdentity&) {}
  virtual void remove_process(const ProcessIdentity&) {}
};

// cpuacct.usage of cgroup v1 (one number of ns), or cpu.stat of v2 (usage_usec).
class CgroupCounter : public CpuCounter {
 public:
  static Result<std::unique_ptr<CpuCounter>> open(const std::string& path);
  Nanos read() override;

 private:
  explicit CgroupCounter(Fd file) : file_(std::move(file)) {}
  Fd file_;
  Nanos last_{0};
};

// Counts a group that appears later than its slice (a Pod's), from then on: what it used before was
// not under a permit. Thread-safe: its owner begins it while a meter reads.
class LaterCounter {
 public:
  // The first file that can be opened is counted; an empty path and later calls do nothing.
  void begin(const std::string& path);
  Nanos read();

 private:
  std::mutex mutex_;
  std::unique_ptr<CpuCounter> counter_;
  Nanos before_{0};
};

// A meter's view of it.
class SharedCounter : public CpuCounter {
 public:
  explicit SharedCounter(std::shared_ptr<LaterCounter> later) : later_(std::move(later)) {}
  Nanos read() override { return later_->read(); }

 private:
  std::shared_ptr<LaterCounter> later_;
};

// Returns the CPU time of the processes since they began, together; an ended one counts nothing.
Nanos cpu_time_of(const std::vector<pid_t>& processes);

class ProcessCounter : public CpuCounter {
 public:
  Nanos read() override;
  void add_process(const ProcessIdentity&) override;
  void remove_process(const ProcessIdentity&) override;

 private:
  struct Clock {
    ProcessIdentity process;
    clockid_t id;
    Nanos counted;
  };
  std::vector<Clock> clocks_;
  Nanos total_{0};
};

class CpuMeter : public Meter {
 public:
  static constexpr Nanos kLag = Millis(12);  // a tick at HZ=100, plus a margin

  // REQUIRES: millicores > 0
  CpuMeter(std::unique_ptr<CpuCounter> counter, int millicores, Time now);

  void look() override { counted_ = std::max(counter_->read(), counted_); }
  std::optional<Reading> poll(Time now, bool resting) override;
  Time last_active() const override { return last_active_; }
  Nanos lag() const override { return kLag; }
  void add_process(const ProcessIdentity& p) override { counter_->add_process(p); }
  void remove_process(const ProcessIdentity& p) override { counter_->remove_process(p); }
  void set_millicores(int millicores) override { millicores_ = millicores; }

 private:
  std::unique_ptr<CpuCounter> counter_;
  int millicores_;
  Nanos counted_, last_;
  Time last_active_;
  Time last_poll_{};
};

}  // namespace sluice::node
