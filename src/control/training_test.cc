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
  int64_t back_to = -1;

  Result<void> check(const TrainingSpec&) const override { return {}; }
  void keep(const Revision&) override {}
  std::vector<std::string> remove(const FunctionName&, bool) override { return {}; }
  void run(const FunctionName&, const std::vector<InstanceId>&) override {}
  bool ended(const FunctionName&, const InstanceId&, const std::string&) override { return true; }
  void retry(const FunctionName&) override {}
  Result<void> go_back(const FunctionName&, int64_t step) override {
    back_to = step;
    return {};
  }
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

TEST_F(ControlOfAJob, GoesBackToACheckpointOnceItHasNoWorkers) {
  FunctionSpec spec;
  spec.name.name = "j";
  spec.kind = TrainingSpec{.command = {"/bin/true"}, .epochs = 10, .max_workers = 1};
  Requests requests(*control);
  ASSERT_TRUE(requests.apply({spec}, false, wall).ok());
  step(3);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  training.job.phase = JobPhase::kRunning;
  step(3);
  const Result<void> early = requests.resume_from(spec.name, 100, wall);
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().kind, ErrorKind::kConflict);
  EXPECT_EQ(training.back_to, -1);

  ASSERT_TRUE(requests.set_paused(spec.name, true, wall).ok());
  step(3);
  for (const ObservedInstance& o : std::vector(cluster.seen.instances)) cluster.end(o.instance.id);
  step(3);
  const Result<void> back = requests.resume_from(spec.name, 100, wall);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(training.back_to, 100);
  EXPECT_FALSE(spec_of(control->functions().at(spec.name).stored, 1).training().paused);

  training.job.phase = JobPhase::kFinished;
  step(3);
  EXPECT_EQ(requests.resume_from(spec.name, 100, wall).error().message,
            "job 'default/j' has finished");
}

}  // namespace
}  // namespace sluice::control
