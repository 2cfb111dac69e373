#include <sys/prctl.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <thread>

#include "tests/support/gpu_judge.h"
#include "tests/support/kernel_stamps.h"

namespace sluice::bench {
namespace {

class Stamps : public GpuJudge {
 public:
  explicit Stamps(std::string folder) : folder_(std::move(folder)) {
    watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  }

  std::string expect(policy::ClientId id) override {
    std::string path = folder_ + "/stamps" + std::to_string(id);
    const std::lock_guard lock(mutex_);
    stamps_.erase(id);
    stamps_.try_emplace(id, path);
    return path;
  }
  void started(policy::ClientId, pid_t) override {}
  void stopped(policy::ClientId id) override {
    const std::lock_guard lock(mutex_);
    stamps_.erase(id);
    unlink((folder_ + "/stamps" + std::to_string(id)).c_str());
  }

  Nanos used(policy::ClientId id) override {
    const std::lock_guard lock(mutex_);
    return fresh(id).busy();
  }
  std::optional<Time> began_after(policy::ClientId id, Time moment) override {
    const std::lock_guard lock(mutex_);
    return fresh(id).began_after(moment);
  }
  std::optional<Time> last_end(policy::ClientId id) override {
    const std::lock_guard lock(mutex_);
    return fresh(id).last_end();
  }

 private:
  KernelStamps& fresh(policy::ClientId id) {
    KernelStamps& stamps = stamps_.at(id);
    stamps.look(clock_.now());
    return stamps;
  }
  // Polls often, so that the two clocks are known well.
  void watch(const std::stop_token& stop) {
    prctl(PR_SET_TIMERSLACK, 1);
    while (!stop.stop_requested()) {
      usleep(10);
      const std::lock_guard lock(mutex_);
      for (auto& [id, stamps] : stamps_) stamps.look(clock_.now());
    }
  }

  const std::string folder_;
  SteadyClock clock_;
  std::mutex mutex_;
  std::map<policy::ClientId, KernelStamps> stamps_;
  std::jthread watcher_;
};

}  // namespace

std::unique_ptr<GpuJudge> judge_by_stamps(const std::string& folder) {
  return std::make_unique<Stamps>(folder);
}

}  // namespace sluice::bench
