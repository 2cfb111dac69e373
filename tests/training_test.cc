// Elastic training with real workers: the trainer's processes come, go and are killed, and the
// trained parameters say whether any sample was lost or used twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/random.h"
#include "tests/support/folder.h"
#include "tests/support/shell.h"
#include "tests/support/training_job.h"
#include "train/checkpoints.h"

namespace sluice::train {
namespace {

const std::string kDemonstrations = SLUICE_TRAINING;

JobSettings job_of(const std::string& demonstration, int64_t epochs) {
  JobSettings s;
  s.name = demonstration;
  s.job.model = kDemonstrations + "/" + demonstration + ".pt";
  s.job.dataset = kDemonstrations + "/" + demonstration;
  s.job.epochs = epochs;
  s.job.batch = 10;
  s.job.learning_rate = 10;  // so that each use of a sample of `ledger` moves its parameter by 1
  s.job.momentum = 0;
  s.batch = {.least = 10, .most = 10};
  return s;
}

// The first parameters of a checkpoint: of `ledger`, its only ones.
std::vector<float> parameters_of(const std::string& checkpoint, size_t count) {
  std::vector<float> numbers(count);
  std::ifstream in(checkpoint + "/state", std::ios::binary);
  in.read(reinterpret_cast<char*>(numbers.data()),
          static_cast<std::streamsize>(count * sizeof(float)));
  EXPECT_TRUE(in);
  return numbers;
}

// A stopped worker is noticed sooner than live.
constexpr JobServerLimits kLimits{.ping = Millis(200), .answer = Seconds(3)};
// What comes to a job: at first each of these once, for a fast machine may take all steps in a few
// events, then any but a stop, which comes every so many.
enum Event { kJoin, kRestart, kStop, kLeave, kKill };
constexpr Event kFirst[] = {kJoin, kRestart, kStop, kLeave, kKill};
constexpr int kStopEvery = 8;

bool ended(const JobStatus& s) {
  return s.phase != JobPhase::kQueued && s.phase != JobPhase::kRunning;
}
std::function<bool(const JobStatus&)> has_taken(int64_t steps) {
  return
      [=](const JobStatus& s) { return ended(s) || (s.progress && s.progress->at.step >= steps); };
}

// Its workers, and what it waits for.
std::string about(const TrainingJob& job) {
  const JobStatus s = job.status();
  std::string text = "generation " + std::to_string(s.generation) + ", step " +
                     std::to_string(position_of(s).step) + ", members";
  for (const std::string& m : s.members) text += " " + m;
  text += ", processes";
  for (const std::string& w : job.workers()) text += " " + w;
  return text + ", waits for " + s.waits_for + ", trouble " + s.trouble;
}

class Training : public testing::Test {
 protected:
  TrainingJob& start(JobSettings s, int workers, const std::string& trainer = SLUICE_TRAINER) {
    job_ = std::make_unique<TrainingJob>(trainer, folder_.path, std::move(s), kLimits);
    for (int i = 0; i < workers; ++i) job_->start_worker();
    return *job_;
  }
  std::string log() const {
    std::ifstream in(folder_.path + "/log");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void expect_finished() {
    EXPECT_TRUE(job_->wait_until(ended)) << log();
    EXPECT_EQ(job_->status().phase, JobPhase::kFinished) << job_->status().trouble << "\n" << log();
  }

  // Starts, ends, stops and kills workers and the controller, about `every` steps, until the job
  // has ended.
  void let_workers_come_and_go(uint64_t seed, int64_t every);
  void stop_and_end(const std::string& worker);

  TemporaryFolder folder_;
  std::unique_ptr<TrainingJob> job_;
};

// Its controller notices that it is stopped, and it is ended, as by the platform.
void Training::stop_and_end(const std::string& worker) {
  job_->signal(worker, SIGSTOP);
  EXPECT_TRUE(job_->wait_until([&](const JobStatus& s) {
    return ended(s) || std::ranges::count(s.members, worker) == 0 ||
           std::ranges::count(s.stragglers, worker, &Straggler::worker) > 0;
  })) << log();
  job_->signal(worker, SIGKILL);
}

void Training::let_workers_come_and_go(uint64_t seed, int64_t every) {
  TrainingJob& job = *job_;
  Random random(seed);
  std::map<Event, int> came;
  const auto next = [&](size_t event, size_t workers) {
    if (event < std::size(kFirst)) return kFirst[event];
    if (event % kStopEvery == 0) return kStop;
    if (workers < 2) return kJoin;
    if (workers > 3) return random.below(2) == 0 ? kLeave : kKill;
    constexpr Event kAny[] = {kJoin, kLeave, kKill, kRestart};
    return kAny[random.below(std::size(kAny))];
  };
  size_t events = 0;
  for (int64_t step = 60; !ended(job.status());) {
    // After the last step all may end while the controller restarts: it waits for another then.
    ASSERT_TRUE(job.wait_until([&](const JobStatus& s) {
      job.reap();
      return has_taken(step)(s) || job.workers().empty();
    })) << log()
        << about(job);
    if (const auto progress = job.status().progress) step = progress->at.step + every;
    const std::vector<std::string> workers = job.workers();
    if (workers.empty()) {
      job.start_worker();
      continue;
    }
    Event event = next(events++, workers.size());
    const std::vector<std::string> members = job.status().members;
    if (event == kStop && (members.empty() || std::ranges::count(workers, members.back()) == 0))
      event = kJoin;
    ++came[event];
    const std::string& one = workers[random.below(workers.size())];
    switch (event) {
      case kJoin:
        job.start_worker();
        break;
      case kLeave:
        job.signal(one, SIGTERM);
        break;
      case kKill:
        job.signal(one, SIGKILL);
        break;
      case kRestart:
        job.restart_controller();
        break;
      case kStop:
        stop_and_end(members.back());
        break;
    }
  }
  expect_finished();
  for (const Event event : kFirst) EXPECT_GT(came[event], 0) << "of kind " << event;
}

TEST_F(Training, EverySampleIsUsedOnceAnEpochThroughJoinsLeavesAndKills) {
  constexpr int kEpochs = 100;
  constexpr uint64_t kSeed = 1;
  TrainingJob& job = start(job_of("ledger", kEpochs), 2);
  let_workers_come_and_go(kSeed, 150);
  for (const float used : parameters_of(job.status().checkpoint->path, 1000))
    ASSERT_NEAR(used, -kEpochs, 1e-3) << "seed " << kSeed;
}

// The trained model is a TorchScript module, whose parameter is the ledger. Its scheduler counts
// each step once, on each rank, or some samples would count more or less than 0.9^epoch.
TEST_F(Training, AScriptUsesEverySampleOnceAnEpochAtItsRateThroughJoinsLeavesAndKills) {
  constexpr int kEpochs = 20;
  TrainingJob& job = start(job_of("ledger", kEpochs), 3, SLUICE_PROGRAMS "/elastic_ledger.py");
  const auto trains_with = [&](int workers) {
    ASSERT_TRUE(job.wait_until([&](const JobStatus& s) { return s.workers == workers; })) << log();
    const auto progress = job.status().progress;
    ASSERT_TRUE(job.wait_until(has_taken((progress ? progress->at.step : 0) + 40))) << log();
    ASSERT_FALSE(ended(job.status())) << log();
  };
  trains_with(3);
  job.start_worker();
  trains_with(4);
  job.signal("w1", SIGKILL);
  trains_with(3);
  job.restart_controller();
  trains_with(3);
  job.signal("w2", SIGTERM);
  trains_with(2);
  job.signal("w3", SIGKILL);
  expect_finished();
  const std::string check =
      "/usr/bin/python3 -c 'import torch; used = torch.jit.load(\"" + job_->status().model +
      "\").used; assert len(used) == 1003 and (used + " +
      std::to_string((1 - std::pow(0.9, kEpochs)) / (1 - 0.9)) + ").abs().max() < 1e-3, used'";
  EXPECT_EQ(std::system(check.c_str()), 0) << log();
}

// The same global batches give the same parameters, whichever workers computed their parts.
TEST_F(Training, ParametersAreThoseOfAPlainRun) {
  JobSettings s = job_of("digits", 3);
  s.job.batch = 100;
  s.batch = {.least = 100, .most = 100};
  s.job.learning_rate = 0.02;
  s.job.momentum = 0.9;
  TemporaryFolder plain_folder;
  TrainingJob plain(SLUICE_TRAINER, plain_folder.path, s);
  plain.start_worker();
  ASSERT_TRUE(plain.wait_until(ended));

  TrainingJob& job = start(s, 1);
  ASSERT_TRUE(job.wait_until(has_taken(20)));
  job.start_worker();
  ASSERT_TRUE(job.wait_until([](const JobStatus& st) { return ended(st) || st.workers == 2; }));
  ASSERT_TRUE(job.wait_until(has_taken(50)));
  job.signal("w1", SIGKILL);
  ASSERT_TRUE(job.wait_until(has_taken(70)));
  job.start_worker();
  expect_finished();
  const size_t count = static_cast<size_t>(job.status().checkpoint->bytes) / sizeof(float) / 2;
  const auto expected = parameters_of(plain.status().checkpoint->path, count);
  const auto found = parameters_of(job.status().checkpoint->path, count);
  double apart = 0, length = 0;
  for (size_t i = 0; i < count; ++i) {
    apart += std::pow(static_cast<double>(expected[i]) - found[i], 2);
    length += std::pow(static_cast<double>(expected[i]), 2);
  }
  // The order of sums differs, and a maximum that goes the other way for it moves the result by up
  // to 0.7 % (measured); a step lost or taken twice, or a momentum lost, by 2 to 13 %.
  EXPECT_LT(std::sqrt(apart / length), 0.01);
  EXPECT_LT(job.status().progress->loss, 1.2);  // from 2.3
}

TEST_F(Training, AWorkerThatIsToEndLeavesAndTheOthersGoOn) {
  TrainingJob& job = start(job_of("ledger", 1000), 2);
  ASSERT_TRUE(job.wait_until([](const JobStatus& s) { return s.workers == 2; }));
  job.signal("w1", SIGTERM);
  ASSERT_TRUE(job.wait_until([](const JobStatus& s) { return s.workers == 1; }));
  std::map<std::string, int> gone;
  ASSERT_TRUE(job.wait_until([&](const JobStatus&) {
    gone.merge(job.reap());
    return gone.contains("w1");
  }));
  EXPECT_EQ(gone["w1"], 0);
  const int64_t step = job.status().progress->at.step;
  EXPECT_TRUE(job.wait_until(has_taken(step + 10)));
}

TEST_F(Training, TheLastToLeaveWritesACheckpointAndTheNextGoesOnThere) {
  TrainingJob& job = start(job_of("ledger", 1000), 2);
  ASSERT_TRUE(job.wait_until(has_taken(50)));
  for (const std::string& w : job.workers()) job.signal(w, SIGTERM);
  ASSERT_TRUE(job.wait_until([&](const JobStatus&) { return job.reap(), job.workers().empty(); }));
  ASSERT_TRUE(job.status().checkpoint);
  const int64_t saved = job.status().checkpoint->at.step;
  EXPECT_GE(saved, 50);
  job.start_worker();
  ASSERT_TRUE(
      job.wait_until([&](const JobStatus& s) { return s.generation > 1 && s.workers == 1; }));
  ASSERT_TRUE(job.wait_until(has_taken(saved + 1)));
}

TEST_F(Training, ACheckpointOfAnotherModelIsNotTaken) {
  TrainingJob& job = start(job_of("ledger", 1000), 1);
  ASSERT_TRUE(job.wait_until(has_taken(50)));
  job.signal("w1", SIGTERM);
  ASSERT_TRUE(job.wait_until([&](const JobStatus&) { return job.reap(), job.workers().empty(); }));
  const Saved saved = *job.status().checkpoint;
  JobSettings s = job_of("digits", 1);
  s.resume = saved;
  TemporaryFolder other_folder;
  TrainingJob other(SLUICE_TRAINER, other_folder.path, s);
  other.start_worker();
  ASSERT_TRUE(other.wait_until(ended));
  EXPECT_EQ(other.status().phase, JobPhase::kFailed);
  EXPECT_THAT(other.status().trouble, testing::HasSubstr("is a checkpoint of another model"));
  EXPECT_EQ(checkpoints_in(folder_.path + "/artifacts").size(), 1u);
}

// The sample with the NaN gradient comes in the first epoch: what was trained before it is kept.
TEST_F(Training, AStepWithAGradientThatIsNotFiniteIsNotTaken) {
  TrainingJob& job = start(job_of("poison", 2), 2);
  ASSERT_TRUE(job.wait_until(ended)) << log();
  EXPECT_EQ(job.status().phase, JobPhase::kPaused);
  ASSERT_TRUE(job.wait_until([&](const JobStatus&) { return job.reap(), job.workers().empty(); }));
  ASSERT_TRUE(job.status().checkpoint) << log();
  const JobPosition at = job.status().checkpoint->at;
  EXPECT_EQ(job.status().trouble, "the gradient of used is not finite; step " +
                                      std::to_string(at.step) + " was not taken");
  EXPECT_EQ(at.sample, 10 * at.step);
  const std::vector<float> used = parameters_of(job.status().checkpoint->path, 1000);
  EXPECT_EQ(std::count(used.begin(), used.end(), -1.0F), at.sample);
  EXPECT_EQ(std::count(used.begin(), used.end(), 0.0F), 1000 - at.sample);
  EXPECT_FALSE(std::filesystem::exists(folder_.path + "/artifacts/model.pt"));
}

// 65 samples at a batch of 64, of which batch normalization cannot do with the last one alone.
TEST_F(Training, NoWorkerHasASingleSampleOfALargerBatch) {
  for (const int workers : {1, 2}) {
    TemporaryFolder folder;
    JobSettings s = job_of("norm", 3);
    s.job.batch = 64;
    s.batch = {.least = 64, .most = 64};
    s.job.learning_rate = 0.01;
    TrainingJob job(SLUICE_TRAINER, folder.path, s);
    for (int i = 0; i < workers; ++i) job.start_worker();
    ASSERT_TRUE(job.wait_until(ended));
    EXPECT_EQ(job.status().phase, JobPhase::kFinished) << job.status().trouble;
    EXPECT_EQ(job.status().progress->at, (JobPosition{6, 3, 0}));
  }
}

TEST_F(Training, AScriptThatCannotGoOnIsPausedWithTheReason) {
  struct Case {
    std::string script, trouble;
    JobPhase phase;
  };
  const Case cases[] = {
      {"poison", "the gradient of 0.weight is not finite; step 5 was not taken", JobPhase::kPaused},
      {"overflow", "0.weight is not finite after step 5, which is not kept", JobPhase::kPaused},
      {"differ", "the workers' parameters differ at step 20, first in 0.weight", JobPhase::kPaused},
      {"scheduler", "join(…, scheduler=scheduler) is needed", JobPhase::kFailed},
      {"norm", "", JobPhase::kFinished},
  };
  std::vector<TemporaryFolder> folders(std::size(cases));
  std::vector<std::unique_ptr<TrainingJob>> jobs;
  JobSettings s = job_of("odd", 20);
  s.job.batch = 64;
  s.batch = {.least = 64, .most = 64};
  for (const Case& c : cases) {
    const int workers = c.script == "differ" ? 2 : 1;
    s.min_workers = workers;
    jobs.push_back(std::make_unique<TrainingJob>(SLUICE_PROGRAMS "/elastic_odd.py " + c.script,
                                                 folders[jobs.size()].path, s));
    for (int i = 0; i < workers; ++i) jobs.back()->start_worker();
  }
  for (const Case& c : cases) {
    const TrainingJob& job = *jobs[static_cast<size_t>(&c - cases)];
    ASSERT_TRUE(job.wait_until(ended)) << c.script;
    EXPECT_EQ(job.status().phase, c.phase) << c.script;
    EXPECT_THAT(job.status().trouble, testing::HasSubstr(c.trouble)) << c.script;
  }
  EXPECT_EQ(jobs.back()->status().progress->at, (JobPosition{40, 20, 0}));
  EXPECT_FALSE(jobs[2]->status().checkpoint) << "of parameters that differ";
}

// Scripts and modules take the same parts, so that the platform's account of samples holds for
// both.
TEST(Samples, ScriptsFollowTheSameRule) {
  std::string expected;
  for (const int64_t samples : {1, 2, 3, 65, 67, 100})
    for (const int64_t batch : {1, 2, 3, 7, 64})
      for (const int world : {1, 2, 3, 8})
        for (const int least : {1, 2})
          for (JobPosition at; at.epoch == 0;) {
            const SampleRange all = step_range(at, batch, samples);
            for (int rank = 0; rank < world; ++rank) {
              const SampleRange mine = shard(all, rank, world, least);
              expected += std::to_string(mine.begin) + " " + std::to_string(mine.end) + "\n";
            }
            at = after(at, all, samples);
          }
  EXPECT_EQ(run(SLUICE_PROGRAMS "/elastic_parts.py").said, expected);
}

TEST_F(Training, ALossThatIsNotFiniteIsSaidAndTheLastGoodCheckpointRemains) {
  JobSettings s = job_of("digits", 1000);
  s.job.learning_rate = 1e30;
  TrainingJob& job = start(s, 2);
  ASSERT_TRUE(job.wait_until(ended)) << log();
  EXPECT_EQ(job.status().phase, JobPhase::kPaused);
  EXPECT_THAT(job.status().trouble, testing::HasSubstr("is not finite"));
  ASSERT_TRUE(job.wait_until([&](const JobStatus&) { return job.reap(), job.workers().empty(); }));
}

TEST_F(Training, WhatCannotBeTrainedIsSaidInOneSentence) {
  const auto write = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories(folder_.path + "/" + file.substr(0, file.find('/')));
    std::ofstream(folder_.path + "/" + file) << text;
  };
  write("empty/readme", "");
  write("corrupt/a.npy", "no array");
  const std::string digits = kDemonstrations + "/digits", ledger = kDemonstrations + "/ledger";
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {ledger + ".pt", "/nowhere", "/nowhere: No such file"},
      {ledger + ".pt", folder_.path + "/empty", "has no array NAME.npy"},
      {ledger + ".pt", folder_.path + "/corrupt", "a.npy: is no array of NumPy's"},
      {ledger + ".pt", digits, "its loss takes 1 arguments; the data set has 2 arrays"},
      {"/etc/passwd", ledger, "is no TorchScript module"},
      {SLUICE_MODELS "/mlp.pt", ledger, "has no method `loss`"},
  };
  for (const auto& [model, dataset, trouble] : cases) {
    JobSettings s = job_of("ledger", 1);
    s.job.model = model;
    s.job.dataset = dataset;
    TemporaryFolder folder;
    TrainingJob job(SLUICE_TRAINER, folder.path, s);
    job.start_worker();
    ASSERT_TRUE(job.wait_until(ended)) << trouble;
    EXPECT_EQ(job.status().phase, JobPhase::kFailed);
    EXPECT_THAT(job.status().trouble, testing::HasSubstr(trouble));
  }
}

}  // namespace
}  // namespace sluice::train
