// A training function as a user runs it: apply, pause, a killed worker, resume, and the trained model
// served.
#include <fstream>

#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::HasSubstr;

json job_of(const Platform& p) {
  return p.cli_json({"get", "jobs", "digits"})[0]["job"];
}

// Returns the job once it is as wanted, or as it is when the patience is over.
json job_when(const Platform& p, const std::function<bool(const json&)>& wanted) {
  const SteadyClock clock;
  const Time deadline = clock.now() + kPatience;
  json job = job_of(p);
  while (!wanted(job) && clock.now() < deadline) {
    std::this_thread::sleep_for(Millis(100));
    job = job_of(p);
  }
  return job;
}
std::function<bool(const json&)> is(const char* state) {
  return [=](const json& job) { return job["state"] == state; };
}

TEST(TrainingFunction, IsTrainedThroughAPauseAndAKillAndThenServed) {
  const Platform p({"--runtime", program("sluice-runtime")});
  const std::string file = p.data + "/digits.yaml";
  std::ofstream(file) << "apiVersion: sluice.dev/v1alpha1\n"
                         "kind: TrainingFunction\n"
                         "metadata: {name: digits}\n"
                         "spec: {model: {path: " SLUICE_TRAINING
                         "/digits.pt}, dataset: " SLUICE_TRAINING
                         "/digits, length: 6, mostDevices: 2}\n";
  ASSERT_EQ(p.cli({"apply", "-f", file}).code, 0);
  const auto trains = [](const json& job) {
    return job["state"] == "running" && job.value("step", 0) > 20 && job["workers"] == 2;
  };
  json job = job_when(p, trains);
  ASSERT_TRUE(trains(job)) << job;

  EXPECT_EQ(p.cli({"pause", "digits"}).out, "digits paused\n");
  job = job_when(p, [](const json& j) { return j["devices"] == 0 && j.contains("checkpoint"); });
  EXPECT_EQ(job["state"], "paused");
  ASSERT_TRUE(job.contains("checkpoint")) << job;
  const int64_t saved = job["checkpoint"]["step"];
  EXPECT_GT(saved, 20);

  EXPECT_EQ(p.cli({"resume", "digits"}).out, "digits resumed\n");
  job = job_when(p, [&](const json& j) {
    return j["state"] == "running" && j["workers"] > 0 && j["step"] > saved;
  });
  ASSERT_GT(job["step"].get<int64_t>(), saved) << job;
  const json instances = p.cli_json({"get", "instances", "digits"});
  for (const json& i : instances)
    if (i["state"] == "ready") {
      kill(i["pid"].get<pid_t>(), SIGKILL);
      break;
    }
  job = job_when(p, is("finished"));
  ASSERT_EQ(job["state"], "finished") << job;
  EXPECT_EQ(job["done"], job["samples"]);
  EXPECT_EQ(job["done"], 6 * 5000);
  EXPECT_LT(job["loss"].get<double>(), 0.5);  // from 2.3

  const std::string described = p.cli({"describe", "digits"}).out;
  EXPECT_THAT(described, HasSubstr("trained model: "));
  const std::string model = job["model"];
  const std::string trained = model.substr(0, model.rfind('/')) + "/function.yaml";
  const Ended applied = p.cli({"apply", "-f", trained, "--wait"});
  EXPECT_EQ(applied.code, 0) << applied.err;
  EXPECT_THAT(p.cli({"get", "functions"}).out, HasSubstr("digits-trained  1/1"));
}

}  // namespace
}  // namespace sluice
