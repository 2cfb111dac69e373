// Training jobs in memory, in virtual time, for tests: a job takes so many samples a second with
// each of its ready workers. At its end they end by themselves. One thread.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/training.h"
#include "tests/support/fake_cluster.h"

namespace sluice::control {

class FakeTraining : public Training {
 public:
  static constexpr int64_t kSamples = 100;  // of an epoch
  static constexpr double kRate = 20;       // samples a second, of a worker

  FakeTraining(FakeCluster& cluster, const Clock& clock) : cluster_(cluster), clock_(clock) {}

  Result<void> check(const TrainingSpec&) const override { return {}; }
  void keep(const Revision& r) override {
    const auto known = jobs_.find(r.function);
    if (known != jobs_.end() && known->second.revision == r.number) return;
    jobs_[r.function] = {.revision = r.number, .epochs = r.spec.training().epochs};
  }
  std::vector<std::string> remove(const FunctionName& f, bool) override {
    jobs_.erase(f);
    return {};
  }
  void run(const FunctionName& f, const std::vector<InstanceId>& workers) override {
    Job& job = jobs_.at(f);
    const Time before = std::exchange(job.computed_to, clock_.now());
    if (before != Time{}) job.samples += kRate * job.ready * seconds(job.computed_to - before);
    job.ready = static_cast<int>(std::ranges::count_if(workers, [&](const InstanceId& id) {
      const ObservedInstance* worker = find(cluster_.seen.instances, id);
      return worker != nullptr && worker->instance.state == InstanceState::kReady;
    }));
    job.most = std::max(job.most, job.ready);
    if (finished(job))
      for (const InstanceId& id : workers) cluster_.end(id);
  }
  bool ended(const FunctionName&, const InstanceId&, const std::string&) override { return true; }
  void retry(const FunctionName&) override {}
  std::optional<train::JobStatus> status(const FunctionName& f) const override {
    const auto known = jobs_.find(f);
    if (known == jobs_.end()) return std::nullopt;
    const Job& job = known->second;
    train::JobStatus s{.samples = kSamples, .epochs = job.epochs, .workers = job.ready};
    s.phase = finished(job)   ? JobPhase::kFinished
              : job.ready > 0 ? JobPhase::kRunning
                              : JobPhase::kQueued;
    const auto samples = static_cast<int64_t>(job.samples);
    s.progress = train::Progress{.at = {.epoch = samples / kSamples, .sample = samples % kSamples}};
    return s;
  }
  Result<ExecOfProgram> worker(const FunctionName&, const InstanceId&, int) override {
    return ExecOfProgram{.command = {"/bin/true"}, .serves = false};
  }

  int most_workers(const FunctionName& f) const { return jobs_.at(f).most; }

 private:
  struct Job {
    int revision = 0;
    int64_t epochs = 0;
    double samples = 0;  // so far, of all epochs
    int ready = 0;       // workers, since computed_to
    int most = 0;        // workers at once
    Time computed_to{};
  };
  static bool finished(const Job& job) {
    return job.samples >= static_cast<double>(job.epochs * kSamples);
  }

  FakeCluster& cluster_;
  const Clock& clock_;
  std::map<FunctionName, Job> jobs_;
};

}  // namespace sluice::control
