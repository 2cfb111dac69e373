// Training jobs in virtual time: how long they take, under which policy, and beside inference.
#include "sim/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/log.h"
#include "policy/bundle.h"
#include "sim/report.h"
#include "sim/run.h"
#include "sim/scenario_file.h"
#include "trace/text_file.h"

namespace sluice::sim {
namespace {

constexpr Nanos kStart = Millis(1500);  // within the controller's patience for others that load

// Devices on nodes of two. A step of a job takes 0.1 s on one device, and has 100 samples.
class Jobs : public testing::Test {
 protected:
  Jobs() {
    spdlog::set_level(spdlog::level::off);
    scenario_.name = "jobs";
    scenario_.duration = Seconds(4000);
    scenario_.cluster.stepping = Stepping::kFluid;
    scenario_.cluster.cold_starts = {kStart};
  }

  void devices(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string node = "n" + std::to_string(i / 2);
      const std::string id = node + "/" + std::to_string(i % 2);
      scenario_.cluster.devices.push_back(
          {{.id = id, .node = node, .model = "gpu", .memory = 1 << 30, .sm_quantum = {100}}, {}});
    }
  }
  // A job with so many steps.
  ScenarioJob& job(const std::string& name, int at, int epochs, int most_devices) {
    TrainingSpec training{.epochs = epochs, .max_workers = most_devices, .batch = {100, 100}};
    ScenarioJob& j = scenario_.jobs.emplace_back();
    j.spec = {.name = {.name = name}, .kind = training};
    j.arrives = Seconds(at);
    j.model = {.name = "m", .samples = 1000, .batch = {100, 100}};
    j.model.step = {.alpha_c = 0.02, .beta_c = 0.0008};
    return j;
  }
  Outcome play(const std::string& policy, const std::string& plan = "") {
    auto o = simulate(scenario_, policy, {}, plan);
    EXPECT_TRUE(o.ok()) << played_as(policy, plan) << ": " << o.error().message;
    return std::move(o).value_or({});
  }
  // Returns the seconds from the job's first step to its end.
  double lasted(const JobOutcome& job) {
    EXPECT_TRUE(job.began && job.finished) << job.job.name;
    return job.finished ? seconds(*job.finished - *job.began) : 0;
  }

  Scenario scenario_;
};

TEST_F(Jobs, OneAloneTakesItsStepsAndWaitsForItsWorkersStart) {
  devices(1);
  job("a", 7, 20, 1);
  for (const Stepping stepping : {Stepping::kFluid, Stepping::kExact}) {
    scenario_.cluster.stepping = stepping;
    for (const std::string plan : {"sluice", "fifo", "sjf"}) {
      const Outcome o = play("has-gpu", plan);
      ASSERT_EQ(o.jobs.size(), 1u);
      EXPECT_NEAR(lasted(o.jobs[0]), 200 * 0.1, 0.01) << plan << to_string(stepping);
      const double waited = seconds(*o.jobs[0].began - o.jobs[0].arrived);
      EXPECT_NEAR(waited, seconds(kStart + scenario_.job_physics.join), 0.3) << plan;
      EXPECT_EQ(o.jobs[0].reforms, 0);
      EXPECT_NEAR(o.jobs[0].samples, 20'000, 1e-6);
      EXPECT_LT(o.lasted, Seconds(40)) << "the run ends with its last job";
    }
  }
}

TEST_F(Jobs, WorkersSynchroniseWithinANodeAndAcrossNodes) {
  devices(4);
  ScenarioJob& a = job("a", 0, 20, 2);
  a.model.step.alpha_r = 0.03;
  a.model.step.alpha_n = 0.08;
  a.model.step.gamma = 2;
  const double computes = 0.02 + 0.0008 * 50;
  EXPECT_NEAR(lasted(play("fifo").jobs[0]), 200 * std::hypot(computes, 0.03), 0.02);
  scenario_.jobs[0].spec.training().max_workers = 3;
  const double third = 0.02 + 0.0008 * 34;
  EXPECT_NEAR(lasted(play("fifo").jobs[0]), 200 * std::hypot(third, 0.08), 0.02);
}

TEST_F(Jobs, MeanCompletionTimeFallsFromFifoToShortestFirstToElastic) {
  devices(2);
  job("long", 0, 200, 2);
  job("middle", 5, 100, 2);
  job("short", 6, 5, 2);
  for (ScenarioJob& j : scenario_.jobs) j.model.step.alpha_r = 0.01;
  const Outcome fifo = play("fifo"), sjf = play("sjf"), elastic = play("has-gpu");
  for (const Outcome* o : {&fifo, &sjf, &elastic}) EXPECT_EQ(o->all_jobs.finished, 3u) << o->policy;
  EXPECT_LT(*fifo.jobs[1].finished, *fifo.jobs[2].finished);
  EXPECT_LT(*sjf.jobs[2].finished, *sjf.jobs[1].finished);
  EXPECT_LT(sjf.all_jobs.completion_mean, fifo.all_jobs.completion_mean);
  EXPECT_LT(elastic.all_jobs.completion_mean, sjf.all_jobs.completion_mean);
  EXPECT_LT(elastic.all_jobs.queueing_mean, Seconds(15));
  EXPECT_GT(elastic.jobs[0].reforms, 0);
}

TEST_F(Jobs, HaveThePlanThatTheyNameElseThePlatformsElseTheirBundles) {
  devices(2);
  job("long", 0, 200, 2);
  job("middle", 5, 100, 2);
  job("short", 6, 5, 2);
  const auto ends = [](const Outcome& o) {
    std::vector<Nanos> all;
    for (const JobOutcome& j : o.jobs) all.push_back(*j.finished);
    return all;
  };
  const Outcome fifo = play("fifo"), sjf = play("sjf"), chosen = play("has-gpu", "fifo");
  EXPECT_NE(ends(fifo), ends(sjf));
  EXPECT_EQ(ends(chosen), ends(fifo));
  EXPECT_EQ(chosen.policy, "has-gpu/fifo");
  EXPECT_EQ(ends(play("sjf", "fifo")), ends(fifo));
  for (ScenarioJob& j : scenario_.jobs) j.spec.training().plan = "sjf";
  EXPECT_EQ(ends(play("has-gpu", "fifo")), ends(sjf));
}

TEST_F(Jobs, AJobLosesARoundAndAReformWithEachWorkerThatDies) {
  devices(2);
  job("a", 0, 40, 2);
  const double whole = lasted(play("fifo").jobs[0]);
  scenario_.faults = {{.at = Seconds(10), .kind = Fault::Kind::kKill, .subject = "a"}};
  const Outcome o = play("fifo");
  EXPECT_EQ(o.all_jobs.finished, 1u);
  EXPECT_EQ(o.jobs[0].reforms, 2);  // without it, and with the one in its place
  EXPECT_GT(lasted(o.jobs[0]), whole);
  EXPECT_LT(lasted(o.jobs[0]), whole + 5);
  EXPECT_NEAR(o.jobs[0].samples, 40'000, 1e-6);
}

TEST_F(Jobs, TheBatchGrowsWithTheNoiseScaleAndItsSamplesBringLess) {
  devices(2);
  ScenarioJob& a = job("a", 0, 100, 2);
  a.model.batch = a.spec.training().batch = {100, 800};
  a.model.step.alpha_r = 0.2;
  a.model.noise = {1000};
  const Outcome by_samples = play("fifo");
  EXPECT_LT(lasted(by_samples.jobs[0]), 0.8 * 1000 * step_seconds(a.model.step, {.count = 2}, 50));
  EXPECT_LT(by_samples.jobs[0].goodput_samples, 0.9 * by_samples.jobs[0].samples);
  scenario_.job_physics.by_goodput = true;
  const Outcome by_goodput = play("fifo");
  EXPECT_NEAR(by_goodput.jobs[0].goodput_samples, 100'000, 1);
  EXPECT_GT(lasted(by_goodput.jobs[0]), lasted(by_samples.jobs[0]));
}

// The scenario of jobs beside a function whose load comes in bursts.
class JobsBesideInference : public testing::Test {
 protected:
  JobsBesideInference() {
    spdlog::set_level(spdlog::level::off);
    const std::string folder = SLUICE_SCENARIOS;
    auto parsed = parse_scenario(*trace::read_text(folder + "/jobs.yaml"), "jobs.yaml", folder);
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    scenario_ = std::move(parsed).value_or({});
  }

  Scenario scenario_;
};

TEST_F(JobsBesideInference, ItsViolationsStayAndJobsGiveDevicesBack) {
  const auto with = simulate(scenario_, "has-gpu");
  ASSERT_TRUE(with.ok()) << with.error().message;
  scenario_.jobs.clear();
  const auto without = simulate(scenario_, "has-gpu");
  ASSERT_TRUE(without.ok());
  const auto percent = [](const Outcome& o) {
    const FunctionOutcome& f = o.functions[0];
    return 100 * static_cast<double>(f.violations[0]) / static_cast<double>(f.requests - f.open);
  };
  EXPECT_LE(percent(*with), std::max(1.1 * percent(*without), percent(*without) + 0.2));
  EXPECT_EQ(with->all_jobs.finished, 3u);
  EXPECT_GT(with->jobs[0].account.stops, 0u);
  EXPECT_GT(with->utilisation, without->utilisation);
}

TEST_F(JobsBesideInference, TheSameSeedGivesTheSameBytesAndAnotherDoesNot) {
  scenario_.duration = Seconds(240);
  const auto bytes = [&](uint64_t seed) {
    scenario_.seed = seed;
    const auto o = simulate(scenario_, "has-gpu");
    EXPECT_TRUE(o.ok()) << o.error().message;
    return o.ok() ? to_json(scenario_, std::vector{*o})["policies"].dump() : "";
  };
  const std::string first = bytes(1);
  EXPECT_EQ(first, bytes(1));
  EXPECT_NE(first, bytes(2));
}

}  // namespace
}  // namespace sluice::sim
