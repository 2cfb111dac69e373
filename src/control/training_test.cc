// The loop with a training job, over a cluster and a job controller in memory.
#include "control/training.h"

#include <gtest/gtest.h>

#include "control/desired_memory.h"
#include "control/journal_memory.h"
#include "control/requests.h"
#include "predict/profile_table.h"
#include "tests/support/fake_cluster.h"

namespace sluice::control {
namespace {

class OneJob : public Training {
 public:
  train::JobStatus job{.epochs = 10};

  Result<void> check(const TrainingSpec&) const override { return {}; }
  void keep(const Revision&) override {}
  std::vector<std::string> remove(const FunctionName&, bool) override { return {}; }
  void run(const FunctionName&, const std::vector<InstanceId>&) override {}
  bool ended(const FunctionName&, const InstanceId&, const std::string&) override { return true; }
  void retry(const FunctionName&) override {}
  std::optional<train::JobStatus> status(const FunctionName&) const override { return job; }
  Result<ExecOfProgram> worker(const FunctionName&, const InstanceId&, int) override {
    return ExecOfProgram{.command = {"/bin/true"}};
  }
};

class ControlOfAJob : public testing::Test {
 protected:
  ControlOfAJob() { open(); }
  void open() {
    control = std::move(*Control::open({desired, journal, cluster, predictor, clock, &training},
                                       {.bundle = "has-gpu"}));
  }
  void step(int times) {
    for (int i = 0; i < times; ++i) {
      clock.advance(Seconds(1));
      control->step(wall += 1000);
    }
  }

  ManualClock clock;
  UnixMillis wall = 1'000'000'000'000;
  FakeCluster cluster{clock};
  MemoryDesiredState desired;
  MemoryJournal journal;
  predict::ProfileTable predictor;
  OneJob training;
  std::unique_ptr<Control> control;
};

TEST_F(ControlOfAJob, ItsWorkersGoOnWhileTheNextLoopPreparesItsFiles) {
  FunctionSpec spec;
  spec.name.name = "j";
  spec.kind = TrainingSpec{.command = {"/bin/true"}, .epochs = 10, .max_workers = 2};
  training.job.files_pending = true;
  ASSERT_TRUE(Requests(*control).apply({spec}, false, wall).ok());
  step(3);
  EXPECT_EQ(cluster.starts, 0);
  training.job.files_pending = false;
  step(3);
  ASSERT_EQ(cluster.starts, 2);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  training.job.phase = JobPhase::kRunning;
  step(3);

  training.job = {.epochs = 10, .files_pending = true};  // the next loop's, before it knows more
  open();
  step(3);
  EXPECT_EQ(cluster.stops, 0);
  training.job = {.phase = JobPhase::kRunning, .epochs = 10};
  step(3);
  EXPECT_EQ(cluster.stops, 0);
  EXPECT_EQ(cluster.starts, 2);
}

}  // namespace
}  // namespace sluice::control
