#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "base/check.h"
#include "tests/emulator/machine.h"
#include "tests/support/gpu_judge.h"

namespace sluice::bench {
namespace {

class Log : public GpuJudge {
 public:
  Log(const std::string& folder, bool side_by_side) {
    emulator::MachineSpec spec;
    spec.device.shared = side_by_side;
    machine_ = emulator::Machine::open(folder + "/gpu", spec);
    SLUICE_CHECK(machine_ != nullptr, "the emulated machine");
    setenv("SLUICE_EMULATED_GPU", (folder + "/gpu").c_str(), 1);
  }

  std::string expect(policy::ClientId) override { return ""; }
  void started(policy::ClientId id, pid_t pid) override {
    const std::lock_guard lock(mutex_);
    pids_[id] = pid;
  }
  void stopped(policy::ClientId id) override {
    const std::lock_guard lock(mutex_);
    pids_.erase(id);
  }

  Nanos used(policy::ClientId id) override {
    const pid_t pid = pid_of(id);
    const emulator::Machine::Lock state(*machine_);
    Nanos sum{0};
    for (const emulator::Process& p : state->processes)
      if (p.used && getpgid(p.pid) == pid && p.client[0] != emulator::DeviceModel::kNone)
        sum += Nanos(state->devices[0].usage(p.client[0]).busy_ns);
    return sum;
  }
  std::optional<Time> began_after(policy::ClientId id, Time moment) override {
    std::optional<Time> first;
    for_log(id, [&](Time begin, Time) {
      if (begin >= moment) first = begin;
      return begin >= moment;
    });
    return first;
  }
  std::optional<Time> last_end(policy::ClientId id) override {
    std::optional<Time> last;
    for_log(id, [&](Time, Time end) {
      last = end;
      return false;
    });
    return last;
  }

 private:
  pid_t pid_of(policy::ClientId id) {
    const std::lock_guard lock(mutex_);
    const auto at = pids_.find(id);
    return at == pids_.end() ? 0 : at->second;
  }
  // Walks back from the newest of the last half million intervals of work, until `look` has seen
  // enough.
  template <typename F>
  void for_log(policy::ClientId id, F&& look) {
    const pid_t pid = pid_of(id);
    const emulator::Machine::Lock state(*machine_);
    const emulator::DeviceModel& device = state->devices[0];
    const uint64_t end = device.log_end();
    const uint64_t begin = end - std::min<uint64_t>(end, emulator::DeviceModel::kLog);
    for (uint64_t i = end; i > begin; --i) {
      const emulator::Stretch& stretch = device.stretch(i - 1);
      if (stretch.process != static_cast<uint32_t>(pid)) continue;
      if (!look(Time(Nanos(stretch.begin_ns)), Time(Nanos(stretch.end_ns)))) return;
    }
  }

  std::unique_ptr<emulator::Machine> machine_;
  std::mutex mutex_;
  std::map<policy::ClientId, pid_t> pids_;
};

}  // namespace

std::unique_ptr<GpuJudge> judge_by_log(const std::string& folder, bool side_by_side) {
  return std::make_unique<Log>(folder, side_by_side);
}

}  // namespace sluice::bench
