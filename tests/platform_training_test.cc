// A training function as a user runs it: apply, a killed controller, pause, resume, a killed worker,
// and the trained module served.
#include <filesystem>
#include <fstream>

#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr int kEpochs = 10;

// Returns the job once it is as wanted; fails after a while.
json job_when(const Platform& p, const std::function<bool(const json&)>& wanted) {
  return p.until("/v1/functions/default/digits",
                 [&](const json& f) { return f.contains("job") && wanted(f["job"]); })["job"];
}

TEST(TrainingFunction, IsTrainedThroughAPauseAndAKillAndThenServed) {
  Platform p({"--runtime", program("sluice-runtime")});
  const std::string file = p.data + "/digits.yaml";
  std::ofstream(file) << "apiVersion: sluice.dev/v1alpha1\n"
                         "kind: TrainingFunction\n"
                         "metadata: {name: digits}\n"
                         "spec: {model: {path: " SLUICE_TRAINING
                         "/digits.pt}, dataset: " SLUICE_TRAINING "/digits, length: " +
                             std::to_string(kEpochs) +
                             ", mostDevices: 2, policy: "
                             "{name: has-gpu, settings: {calm: 3600}}}\n";
  ASSERT_EQ(p.cli({"apply", "-f", file}).code, 0);
  json job = job_when(p, [](const json& j) {
    return j["state"] == "running" && j.value("step", 0) > 20 && j["workers"] == 2;
  });

  // The controller dies: the workers wait for the next one, and go on.
  const std::set<pid_t> workers = p.pids("digits");
  const int64_t before = job["step"];
  p.kill_process("control");
  p.wait_until_serves();
  job = job_when(p, [&](const json& j) { return j["workers"] == 2 && j["step"] > before; });
  EXPECT_EQ(p.pids("digits"), workers);
  EXPECT_FALSE(job.contains("checkpoint")) << "the parameters stayed in the workers";

  EXPECT_EQ(p.cli({"pause", "digits"}).out, "digits paused\n");
  job = job_when(p, [](const json& j) { return j["devices"] == 0 && j.contains("checkpoint"); });
  EXPECT_EQ(job["state"], "paused");
  const int64_t saved = job["checkpoint"]["step"];
  EXPECT_GT(saved, before);

  EXPECT_EQ(p.cli({"resume", "digits"}).out, "digits resumed\n");
  job = job_when(p, [&](const json& j) {
    return j["state"] == "running" && j["workers"] > 0 && j["step"] > saved;
  });
  kill(*p.pids("digits").begin(), SIGKILL);
  job = job_when(p, [](const json& j) { return j["state"] == "finished"; });
  EXPECT_EQ(job["done"], job["samples"]);
  EXPECT_EQ(job["done"], kEpochs * 5000);
  EXPECT_LT(job["loss"].get<double>(), 0.5);  // from 2.3

  const std::string described = p.cli({"describe", "digits"}).out;
  EXPECT_THAT(described, HasSubstr("trained model: "));
  const std::string model = job["model"];
  const std::string trained = model.substr(0, model.rfind('/')) + "/function.yaml";
  const Ended applied = p.cli({"apply", "-f", trained, "--wait"});
  EXPECT_EQ(applied.code, 0) << applied.err;
  EXPECT_THAT(p.cli({"get", "functions"}).out, HasSubstr("digits-trained  1/1"));

  // Another job of that name begins anew.
  EXPECT_EQ(p.cli({"delete", "digits"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(model));
  ASSERT_EQ(p.cli({"apply", "-f", file}).code, 0);
  job = job_when(p, [](const json& j) { return j["state"] == "running" && j.contains("step"); });
  EXPECT_LT(job["step"], saved);
}

}  // namespace
}  // namespace sluice
