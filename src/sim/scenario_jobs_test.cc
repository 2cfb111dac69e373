#include "sim/scenario_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "sim/scenario_file.h"
#include "tests/support/folder.h"

namespace sluice::sim {
namespace {

using testing::HasSubstr;

const std::string kModel =
    "  jobModels:\n    - {name: m, samples: 1000, batchSize: {least: 100, most: 400},"
    " step: {alphaC: 0.02, betaC: 0.0008}, noiseScale: [10, 30], memory: 512Mi}\n";

std::string spec_with(const std::string& more) {
  return R"(apiVersion: sluice.dev/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  duration: 100s
  devices:
    - {type: gpu, count: 4, memory: 1Gi}
)" + more;
}

class ScenarioJobs : public testing::Test {
 protected:
  Result<Scenario> read(const std::string& more) {
    return parse_scenario(spec_with(more), "s.yaml", folder_.path);
  }
  std::string fault(const std::string& more) {
    const auto parsed = read(more);
    return parsed.ok() ? "" : parsed.error().message;
  }
  std::string fault_of_list(const std::string& text, const std::string& more = "") {
    write(text);
    return fault(kModel + "  jobLists:\n    - {file: jobs.csv" + more + "}\n");
  }
  void write(const std::string& text) { std::ofstream(folder_.path + "/jobs.csv") << text; }

  const TemporaryFolder folder_;
};

TEST_F(ScenarioJobs, AreReadWithTheirModelOrWithTheirOwnFields) {
  const auto s = read(kModel +
                      "  jobs:\n"
                      "    - {name: b, at: 20s, length: 3, mostDevices: 2, priority: 5, model: m}\n"
                      "    - {name: a, length: 1, samples: 50, batchSize: {least: 10},"
                      " step: {alphaC: 1}, policy: sjf, plan: fifo}\n");
  ASSERT_TRUE(s.ok()) << s.error().message;
  ASSERT_EQ(s->jobs.size(), 2u);
  const ScenarioJob &a = s->jobs[0], &b = s->jobs[1];  // by arrival
  EXPECT_EQ(a.spec.name.name, "a");
  EXPECT_EQ(a.spec.training().batch, (BatchRange{.least = 10, .most = 10}));
  EXPECT_EQ(a.spec.policy, "sjf");
  EXPECT_EQ(a.spec.training().plan, "fifo");
  EXPECT_EQ(b.arrives, Seconds(20));
  EXPECT_EQ(b.spec.priority, 5);
  EXPECT_EQ(b.spec.memory, Bytes{512} << 20);
  EXPECT_EQ(b.spec.training().max_workers, 2);
  EXPECT_EQ(noise_at(b.model, 0.5), 20);
  EXPECT_EQ(noise_at(b.model, 1), 30);
}

TEST_F(ScenarioJobs, OfAListLastTheirEpochsOrTheirTimeOnTheirDevices) {
  write("time,model,epochs,gpus,hours\n0,m,2.5,1,\n10,m,,2,30\n99,m,1,1,\n200,m,1,1,\n");
  const auto s = read(kModel +
                      "  jobLists:\n    - {file: jobs.csv, scale: 2, speed: 2, plan: fapes,"
                      " settings: {kappa: 0.5},"
                      " columns: {submit: time, devices: gpus, duration: hours}}\n");
  ASSERT_TRUE(s.ok()) << s.error().message;
  ASSERT_EQ(s->jobs.size(), 3u) << "the last one comes after the end";
  EXPECT_EQ(s->jobs[0].spec.name.name, "m-0");
  EXPECT_EQ(s->jobs[0].model.samples * s->jobs[0].spec.training().epochs, 5000);
  EXPECT_EQ(s->jobs[1].arrives, Seconds(5));
  const ScenarioJob& timed = s->jobs[1];
  EXPECT_EQ(timed.spec.training().plan, "fapes");
  EXPECT_EQ(timed.spec.policy_settings, (std::map<std::string, std::string>{{"kappa", "0.5"}}));
  EXPECT_EQ(timed.spec.training().max_workers, 2);
  // The largest batch has the best throughput, also by goodput at φ = 20: {400}? See the model.
  const double rate = best_batch(timed.model.step, {.count = 2}, 20, timed.model.batch).throughput;
  EXPECT_NEAR(static_cast<double>(timed.model.samples * timed.spec.training().epochs),
              2 * 30 * rate, timed.spec.training().epochs);
}

TEST_F(ScenarioJobs, ARestartLastsAsLongWithNewWorkersAsWithout) {
  const auto physics = [&](const std::string& training) {
    const auto s = read(kModel + "  training: " + training + "\n" +
                        "  jobs: [{name: a, length: 1, model: m}]\n");
    EXPECT_TRUE(s.ok()) << s.error().message;
    return s.ok() ? s->job_physics : JobPhysics{};
  };
  EXPECT_TRUE(physics("{restart: 30s}").shares_steps);
  EXPECT_FALSE(physics("{shareSteps: false}").shares_steps);
  EXPECT_EQ(physics("{restart: 30s}").join, Seconds(30));
  EXPECT_EQ(physics("{restart: 30s}").leave, Seconds(30));
  EXPECT_EQ(physics("{restart: 30s, leave: 1s}").join, Seconds(30));
  EXPECT_EQ(physics("{restart: 30s, leave: 1s}").leave, Seconds(1));
}

TEST_F(ScenarioJobs, FaultsNameTheFieldTheValueAndWhatIsAllowed) {
  const std::string job = "  jobs:\n    - {name: a, length: 1, model: m";
  EXPECT_THAT(fault(kModel + job + ", mostDevices: 5}\n"),
              HasSubstr("s.yaml:11 spec.jobs[0].mostDevices"));
  EXPECT_THAT(fault(kModel + job + ", leastDevices: 3, mostDevices: 2}\n"),
              HasSubstr("2 is below leastDevices 3"));
  EXPECT_THAT(fault(kModel + job + ", policy: fofi}\n"), HasSubstr("policy 'fofi' not found"));
  EXPECT_THAT(fault(kModel + job + ", plan: fofi}\n"),
              HasSubstr("spec.jobs[0].plan: plan 'fofi' not found"));
  EXPECT_THAT(fault(kModel + job + ", settings: {kappa: 1}}\n"),
              HasSubstr("spec.jobs[0].settings: are those of a plan, which `plan` must name"));
  EXPECT_THAT(fault(kModel + job + ", plan: fapes, settings: {kappa: -1}}\n"),
              HasSubstr("spec.jobs[0].settings: "));
  EXPECT_THAT(fault(kModel + "  jobs:\n    - {name: a, length: 1, model: n}\n"),
              HasSubstr("spec.jobs[0].model: model 'n' not found; there is m"));
  EXPECT_THAT(fault(kModel + job + "}\n    - {name: a, length: 1, model: m}\n"),
              HasSubstr("spec.jobs[1].name: \"a\" stands twice"));
  EXPECT_THAT(
      fault("  jobs:\n    - {name: a, length: 1, samples: 9, batchSize: {least: 8, most: 4},"
            " step: {gamma: 2}, noiseScale: -1}\n"),
      testing::AllOf(HasSubstr("batchSize.most: 4 is below least 8"),
                     HasSubstr("alphaC: with betaC it is below 1e-6 seconds"),
                     HasSubstr("noiseScale: must be a number from 0.1 to 1e+07")));
  EXPECT_THAT(fault(kModel + "  training: {countBy: epochs}\n" + job + "}\n"),
              HasSubstr("\"epochs\" is neither samples nor goodput"));
  EXPECT_THAT(fault(kModel + job +
                    "}\n---\napiVersion: sluice.dev/v1alpha1\n"
                    "kind: TrainingFunction\nmetadata: {name: t}\n"
                    "spec: {command: [/bin/true], length: 1}\n"),
              HasSubstr("t is a TrainingFunction; a scenario's jobs stand in spec.jobs"));
}

TEST_F(ScenarioJobs, FaultsOfAListNameItsLine) {
  EXPECT_THAT(fault_of_list("submit,model,epochs\n1,m,x\n"),
              HasSubstr("jobs.csv:2 epochs: 'x' is no number from 0 to 1e+06"));
  EXPECT_THAT(fault_of_list("submit,model,epochs\n1,n,1\n"),
              HasSubstr("jobs.csv: model 'n' not found; there is m"));
  EXPECT_THAT(fault_of_list("submit,epochs\n1,1\n"),
              HasSubstr("spec.jobLists[0].models: jobs.csv: the list has no column of models"));
  EXPECT_THAT(
      fault_of_list("submit,model\n1,m\n"),
      HasSubstr("spec.jobLists[0].length: jobs.csv: a job has neither epochs nor a duration"));
  EXPECT_THAT(fault_of_list("submit,model,epochs,devices\n1,m,1,9\n"),
              HasSubstr("mostDevices: jobs.csv: a job has 9 devices; there are 4"));
  EXPECT_EQ(fault_of_list("submit,model,epochs,devices\n1,m,1,9\n", ", mostDevices: 4"), "");
  EXPECT_EQ(fault_of_list("submit,epochs\n1,1\n", ", models: [m]"), "");
  EXPECT_THAT(fault(kModel + "  jobLists:\n    - {file: none.csv}\n"), HasSubstr("none.csv"));
}

}  // namespace
}  // namespace sluice::sim
