// Training functions as a user runs them: a module through a killed controller, pause, resume and a
// killed worker, and served; scripts.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/support/folder.h"
#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kEpochs = 10;

// Returns the job once it is as wanted; fails after a while.
json job_when(const Platform& p, const std::function<bool(const json&)>& wanted) {
  return p.until("/v1/functions/default/digits",
                 [&](const json& f) { return f.contains("job") && wanted(f["job"]); })["job"];
}

TEST(TrainingFunction, IsTrainedThroughAPauseAndAKillAndThenServed) {
  Platform p({"--runtime", program("sluice-runtime"), "--devices", "small=4x400m"});
  const std::string file = p.data + "/digits.yaml";
  std::ofstream(file) << "apiVersion: sluice.dev/v1alpha1\n"
                         "kind: TrainingFunction\n"
                         "metadata: {name: digits}\n"
                         "spec: {model: {path: " SLUICE_TRAINING
                         "/digits.pt}, dataset: " SLUICE_TRAINING "/digits, length: " +
                             std::to_string(kEpochs) +
                             ", mostDevices: 2, policy: "
                             "{name: has-gpu, settings: {calm: 1h}}}\n";
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
  kill(p.a_pid("digits"), SIGKILL);
  job = job_when(p, [](const json& j) { return j["state"] == "finished"; });
  EXPECT_EQ(job["done"], job["samples"]);
  EXPECT_EQ(job["done"], kEpochs * 5000);
  EXPECT_LT(job["loss"].get<double>(), 0.5);  // from 2.3
  p.kill_process("control");
  p.wait_until_serves();
  job = job_when(p, [](const json& j) { return j["state"] == "finished"; });
  EXPECT_EQ(job["done"], kEpochs * 5000) << "the next controller says so, too";
  EXPECT_EQ(job["epoch"], kEpochs);

  const std::string described = p.cli({"describe", "digits"}).out;
  EXPECT_THAT(described, HasSubstr("trained model: "));
  const std::string model = job["model"];
  const std::string trained = model.substr(0, model.rfind('/')) + "/function.yaml";
  const Ended applied = p.cli({"apply", "-f", trained, "--wait"});
  EXPECT_EQ(applied.code, 0) << applied.err;
  EXPECT_THAT(p.cli({"get", "functions"}).out, HasSubstr("digits-trained  1/1"));

  // Another job of that name begins anew; the model is not lost.
  const std::string kept = p.data + "/trained/default/digits-1/model.pt";
  EXPECT_EQ(p.cli({"delete", "digits"}).out,
            "digits deleted\nits trained model is kept: " + kept + "\n");
  EXPECT_FALSE(std::filesystem::exists(model));
  EXPECT_TRUE(std::filesystem::exists(kept));
  ASSERT_EQ(p.cli({"apply", "-f", file}).code, 0);
  job = job_when(p, [](const json& j) { return j["state"] == "running" && j.contains("step"); });
  EXPECT_LT(job["step"], saved);
}

// Four servers of a device each, and a job that needs three. A function that finds no room takes
// one back, and is served there.
TEST(TrainingFunction, AnIdleServerOfInferenceGoesOnLoanAndBack) {
  Platform p(
      {"--devices", "small=4x250m", "--servers", "inference=2,training=2", "--lend-after", "1"});
  const std::string file =
      "apiVersion: sluice.dev/v1alpha1\n"
      "kind: TrainingFunction\n"
      "metadata: {name: digits}\n"
      "spec: {model: {path: " SLUICE_TRAINING "/digits.pt}, dataset: " SLUICE_TRAINING
      "/digits, length: 1000, leastDevices: 3, mostDevices: 3}\n";
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, file).code, 0);
  job_when(p, [](const json& j) { return j["devices"] == 3 && j.value("step", 0) > 0; });
  const auto lent = [&] {
    int count = 0;
    for (const json& n : p.get("/v1/nodes"))
      count += n["virtual_cluster"] == "inference" && n["user"] == "training";
    return count;
  };
  EXPECT_EQ(lent(), 2);
  EXPECT_THAT(p.cli({"get", "nodes"}).out, HasSubstr("inference  training, on loan"));
  EXPECT_THAT(p.cli({"get", "plans"}).out, HasSubstr("1 on server03, 1 on server04"));

  p.deploy({.name = "f", .request = 50});
  EXPECT_EQ(lent(), 1);
  EXPECT_THAT(p.cli({"get", "decisions", "f"}).out, HasSubstr("server-reclaimed"));
  job_when(p, [](const json& j) { return j["devices"] == 3 && j["state"] == "running"; });

  // The second one leaves the job two devices, which is too few.
  p.deploy({.name = "g", .request = 100});
  EXPECT_EQ(lent(), 0);
  job_when(p, [](const json& j) { return j["devices"] == 0 && j["state"] == "queued"; });
  EXPECT_EQ(p.cli({"delete", "g"}).code, 0);
  job_when(p, [](const json& j) { return j["devices"] == 3; });

  // While the node daemon is away its servers are silent, and are the same ones.
  const pid_t before = p.a_pid("f");
  p.kill_process("node");
  p.wait_until_serves();
  p.until("/v1/nodes", [](const json& nodes) {
    return nodes.size() == 4 && std::ranges::all_of(nodes, [](const json& n) {
             return n["reachable"].get<bool>() &&
                    n["name"].get<std::string>().starts_with("server");
           });
  });
  EXPECT_EQ(p.a_pid("f"), before) << "it went on";
}

// Four devices, and a model of which nothing is known: two workers measure a step, and a second job
// of the model needs no such measurement.
TEST(TrainingFunction, ItsFirstGroupIsProfiledAndTheNextJobOfItsModelIsPlannedByThat) {
  Platform p({"--devices", "small=4x250m"});
  const auto apply = [&](const std::string& name) {
    return p.cli({"apply", "-f", "-"},
                 "apiVersion: sluice.dev/v1alpha1\n"
                 "kind: TrainingFunction\n"
                 "metadata: {name: " +
                     name +
                     "}\nspec: {model: {path: " SLUICE_TRAINING
                     "/digits.pt}, dataset: " SLUICE_TRAINING "/digits, length: 1000}\n");
  };
  ASSERT_EQ(apply("digits").code, 0);
  const json job = job_when(
      p, [](const json& j) { return j.contains("profile") && j["profile"]["workers"] == 2; });
  EXPECT_THAT(p.cli({"get", "decisions", "digits"}).out,
              HasSubstr("Its steps are measured on 2 workers first."));
  const json& profile = job["profile"];
  EXPECT_EQ(profile["workers"], 2);
  EXPECT_EQ(profile["batch"], 64);
  EXPECT_EQ(profile["buckets"], 1) << "it has less than 25 MiB of parameters";
  EXPECT_GT(profile["bytes"], 1000);
  EXPECT_GT(profile["all_reduce_ms"], 0);
  EXPECT_GT(profile["compute_ms"], 0);
  EXPECT_LT(profile["after_s"], 60);
  EXPECT_TRUE(job.contains("step_model"));
  EXPECT_THAT(p.cli({"describe", "digits"}).out,
              AllOf(HasSubstr(" at 2 workers and batch 64: computation "),
                    HasSubstr(" in 1 bucket\n"), HasSubstr("known to the plan ")));

  ASSERT_EQ(p.cli({"delete", "digits"}).code, 0);
  ASSERT_EQ(apply("second").code, 0);
  const json second = p.until("/v1/functions/default/second", [](const json& f) {
    return f.contains("job") && f["job"].contains("profile");
  });
  EXPECT_LT(second["job"]["profile"]["after_s"], 10) << "once its files are there";
  EXPECT_EQ(second["job"].value("step", 0), 0) << "before it has trained";
  EXPECT_THAT(p.cli({"get", "decisions", "second"}).out,
              Not(HasSubstr("Its steps are measured on 2 workers first.")));
}

// Trials of a second with a wide tolerance, so that three are enough: all of the device, 50 % for
// the request, and 75 % for the limit.
TEST(TrainingFunction, UnderDiluItsRequestAndLimitAreFoundWhileItTrains) {
  Platform p({"--devices", "small=2x250m"});
  ASSERT_EQ(p.cli({"apply", "-f", "-"},
                  "apiVersion: sluice.dev/v1alpha1\nkind: TrainingFunction\n"
                  "metadata: {name: digits}\nspec: {model: {path: " SLUICE_TRAINING
                  "/digits.pt}, dataset: " SLUICE_TRAINING
                  "/digits, length: 1000, mostDevices: 1, batchSize: {least: 64, most: 64}, "
                  "plan: dilu, policy: {name: dilu, settings: {trial: 1s, keeps: 50%, "
                  "tolerance: 30%}}}\n")
                .code,
            0);
  const auto slice = [&](const json& all) {
    for (const json& i : all)
      if (i.value("function", "") == "default/digits") return i["slice"];
    return json{{"request", 0}, {"limit", 0}};
  };
  const json found = slice(p.until("/v1/instances", [&](const json& all) {
    return slice(all)["request"] < slice(all)["limit"];
  }));
  EXPECT_EQ(found["request"], 500) << found;
  EXPECT_GE(found["limit"], 750) << found;
  const std::string decisions = p.cli({"get", "decisions", "digits"}).out;
  EXPECT_THAT(decisions,
              AllOf(HasSubstr("job-trial"), HasSubstr("Its request of 50 % keeps 50 %")));
  EXPECT_THAT(p.cli({"get", "instances"}).out, HasSubstr(" 50% ")) << decisions;
}

// One sample's gradient is NaN, though its loss is finite. 65 samples at a batch of 64 leave none
// alone, which batch normalization could not do with.
TEST(TrainingFunction, AStepThatWouldSpoilTheModelPausesItsJobAndOthersTrain) {
  Platform p({"--runtime", program("sluice-runtime")});
  const auto file = [](const std::string& name) {
    return "apiVersion: sluice.dev/v1alpha1\n"
           "kind: TrainingFunction\n"
           "metadata: {name: " +
           name + "}\nspec: {model: {path: " SLUICE_TRAINING "/" + name +
           ".pt}, dataset: " SLUICE_TRAINING "/" + name +
           ", length: 3, mostDevices: 2, batchSize: {least: 64, most: 64}}\n";
  };
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, file("poison") + "---\n" + file("norm")).code, 0);
  const auto when = [&](const std::string& name, const std::string& state) {
    return p.until("/v1/functions/default/" + name,
                   [&](const json& f) { return f["job"]["state"] == state; })["job"];
  };
  EXPECT_EQ(when("norm", "finished")["done"], 3 * 65);
  when("poison", "paused");
  const json poison = p.until("/v1/functions/default/poison",
                              [](const json& f) { return f["job"].contains("checkpoint"); })["job"];
  EXPECT_EQ(poison.value("model", ""), "");
  EXPECT_THAT(p.cli({"describe", "poison"}).out,
              HasSubstr("the gradient of used is not finite; step " +
                        poison["checkpoint"]["step"].dump() + " was not taken"));
}

// The example of a script that joins by itself, as its file has it.
TEST(TrainingFunction, AnElasticScriptIsTrainedThroughAKill) {
  Platform p({"--runtime", program("sluice-runtime")});
  ASSERT_EQ(p.cli({"apply", "-f", SLUICE_EXAMPLES "/training_script.yaml"}).code, 0);
  const auto when = [&](const std::function<bool(const json&)>& wanted) {
    return p.until("/v1/functions/default/digits-script",
                   [&](const json& f) { return wanted(f["job"]); })["job"];
  };
  json job = when([](const json& j) { return j["workers"] == 2 && j.value("step", 0) > 20; });
  kill(p.a_pid("digits-script"), SIGKILL);
  job = when([](const json& j) { return j["state"] == "finished"; });
  EXPECT_EQ(job["done"], 10 * 5000);
  EXPECT_LT(job["loss"].get<double>(), 0.5);  // from 2.3
  EXPECT_GE(job["reforms"].size(), 2u);
  EXPECT_THAT(p.cli({"describe", "digits-script"}).out, HasSubstr("to serve it: "));
}

std::string script_job(const Platform& p, const std::string& name, const std::string& script) {
  std::string path = p.data + "/" + name + ".py";
  if (script.ends_with(".py"))
    path = script;
  else
    std::ofstream(path) << script;
  return "apiVersion: sluice.dev/v1alpha1\nkind: TrainingFunction\nmetadata: {name: " + name +
         "}\nspec: {command: [/usr/bin/python3, " + path +
         "], elastic: true, length: 100000, mostDevices: 2, batchSize: {least: 10, most: 10}, "
         "policy: {name: has-gpu, settings: {calm: 1h}}}\n";
}

// Its process is there, its connections are open, and nothing comes from it.
TEST(TrainingFunction, AStoppedWorkerIsFoundAndEndedAndItsJobGoesOn) {
  Platform p;
  ASSERT_EQ(p.cli({"apply", "-f", "-", "--wait"},
                  script_job(p, "ledger", SLUICE_PROGRAMS "/elastic_ledger.py"))
                .code,
            0);
  const auto when = [&](const std::function<bool(const json&)>& wanted) {
    return p.until("/v1/functions/default/ledger",
                   [&](const json& f) { return wanted(f["job"]); })["job"];
  };
  when([](const json& j) { return j["workers"] == 2 && j["samples_per_second"] > 0; });
  const pid_t stopped = p.a_pid("ledger");
  const Fd pidfd = pidfd_of(stopped);
  kill(stopped, SIGSTOP);
  const json job = when([](const json& j) { return j["state"] == "stalled"; });
  EXPECT_EQ(job["samples_per_second"], 0);
  EXPECT_THAT(p.cli({"get", "jobs"}).out, HasSubstr("stalled"));
  when([](const json& j) { return j["waits_for"] != ""; });
  EXPECT_THAT(p.cli({"get", "jobs"}).out, HasSubstr("has not answered for"));
  EXPECT_TRUE(ends_within(pidfd, kPatience));
  const int64_t step = job["step"];
  when([&](const json& j) { return j["state"] == "running" && j["step"] > step; });
  EXPECT_THAT(p.cli({"get", "decisions", "ledger"}).out, HasSubstr("straggler"));
}

// Before it joins, and in its first step. Its last words try to command the terminal.
TEST(TrainingFunction, ABrokenScriptIsPausedWithItsExceptionInPlainText) {
  Platform p;
  const std::string raise = "raise ValueError('\\x1b[2J\\x1b]0;title\\x07\\x9bboom')\n";
  const std::string joins =
      "import sluice_elastic, torch\n"
      "model = torch.nn.Linear(2, 1)\n"
      "job = sluice_elastic.join(model, torch.optim.SGD(model.parameters(), lr=1), samples=100)\n"
      "for step in job.steps():\n    ";
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, script_job(p, "joins", joins + raise)).code, 0);
  const Ended ended = p.cli({"apply", "-f", "-", "--wait"}, script_job(p, "early", raise));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("3 workers ended without progress"));
  EXPECT_THAT(ended.err, HasSubstr("boom"));
  const json f = p.until("/v1/functions/default/joins",
                         [](const json& j) { return j["job"]["state"] == "paused"; });
  EXPECT_THAT(f["job"]["trouble"], HasSubstr("ValueError"));
  std::string all = ended.err;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"get", "jobs"},
                                             {"get", "decisions"},
                                             {"get", "instances"},
                                             {"describe", "joins"},
                                             {"describe", "early"},
                                             {"events"},
                                             {"logs", "control"},
                                             {"logs", "node"}})
    all += p.cli(words).out;
  for (const json& i : p.get("/v1/instances"))
    all += p.cli({"logs", i["id"].get<std::string>()}).out +
           p.cli({"describe", "instance", i["id"].get<std::string>()}).out;
  EXPECT_THAT(all, HasSubstr("boom"));
  for (const char* control : {"\x1b", "\x07", "\xC2\x9B"}) EXPECT_EQ(all.find(control), all.npos);
}

// As in root's home: what the platform and a job consist of lies where no worker may go. A job's
// folder is its workers' alone.
TEST(TrainingFunction, InAClosedHomeWorkersReachWhatTheyNeedAndNobodyElseDoes) {
  if (geteuid() != 0) GTEST_SKIP() << "without root, workers are users like their platform";
  namespace fs = std::filesystem;
  const TemporaryFolder home;  // 0700
  for (const char* name :
       {"sluice", "sluice-runtime", "sluice-trainer", "libsluice_gate.so", "python"})
    fs::copy(program(name), home.path + "/" + name, fs::copy_options::recursive);
  for (const char* name : {"digits.pt", "digits"})
    fs::copy(fs::path(SLUICE_TRAINING) / name, home.path + "/" + name, fs::copy_options::recursive);
  fs::copy(SLUICE_EXAMPLES "/train_digits.py", home.path);
  std::ofstream(home.path + "/begin.py") << "import train_digits\n";
  const std::string common = ", dataset: ./digits, length: 1, mostDevices: 1}\n";
  std::ofstream(home.path + "/jobs.yaml")
      << "apiVersion: sluice.dev/v1alpha1\nkind: TrainingFunction\nmetadata: {name: script}\n"
         "spec: {command: [/usr/bin/python3, ./begin.py], elastic: true" +
             common +
             "---\napiVersion: sluice.dev/v1alpha1\nkind: TrainingFunction\n"
             "metadata: {name: digits}\nspec: {model: {path: ./digits.pt}" +
             common;
  Platform p({"--runtime", home.path + "/sluice-runtime"}, {}, 0, home.path);
  const Ended applied = p.cli({"apply", "-f", home.path + "/jobs.yaml"});
  ASSERT_EQ(applied.code, 0) << applied.err;
  const std::string jobs = p.data + "/artifacts/default";
  for (const std::string name : {"script", "digits"}) {
    const json job = p.until("/v1/functions/default/" + name, [&](const json& f) {
      EXPECT_NE(f["job"]["state"], "failed") << f["job"]["trouble"];
      return f["job"]["state"] == "finished" || f["job"]["state"] == "failed";
    })["job"];
    EXPECT_EQ(job["done"], 5000);
    EXPECT_EQ(job["model"], jobs + "/" + name + "@1/model.pt");
    for (const std::string what : {"/model.pt", "/work/model.pt", "/work"}) {
      const std::string path = jobs + "/" + name + "@1" + what;
      ASSERT_TRUE(fs::exists(path)) << path;
      const Ended other = run({"/bin/cat", path}, "", 65534);
      EXPECT_THAT(other.err, HasSubstr("Permission denied")) << path;
    }
    for (const std::string what : {"/finished", "/checkpoint-9", "/work/checkpoint-9"}) {
      const Ended planted = run({"/bin/mkdir", jobs + "/" + name + "@1" + what}, "", 65534);
      EXPECT_THAT(planted.err, HasSubstr("Permission denied")) << what;
    }
    struct stat about {};
    ASSERT_EQ(stat((jobs + "/" + name + "@1/work").c_str(), &about), 0);
    EXPECT_EQ(about.st_uid, 0u) << "its user id is free";
  }
  fs::copy("/bin/true", home.path + "/trainer");
  const Ended refused = p.cli({"apply", "-f", "-"},
                              "apiVersion: sluice.dev/v1alpha1\nkind: TrainingFunction\n"
                              "metadata: {name: closed}\nspec: {command: [" +
                                  home.path + "/trainer], length: 1}\n");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr(home.path + "/trainer cannot be read by workers"));
}

// Of a paused job, with copies of its checkpoints elsewhere; then its own checkpoints are gone.
TEST(TrainingFunction, AJobGoesBackToANamedCheckpointAndOutlivesItsFolder) {
  const TemporaryFolder mounted;
  Platform p({"--checkpoints", mounted.path});
  ASSERT_EQ(p.cli({"apply", "-f", "-"},
                  "apiVersion: sluice.dev/v1alpha1\n"
                  "kind: TrainingFunction\n"
                  "metadata: {name: digits}\n"
                  "spec: {model: {path: " SLUICE_TRAINING "/digits.pt}, dataset: " SLUICE_TRAINING
                  "/digits, length: 1000, mostDevices: 1}\n")
                .code,
            0);
  const auto trained_to = [&](int64_t step) {
    return job_when(p, [&](const json& j) { return j["workers"] == 1 && j["step"] > step; });
  };
  const auto paused = [&] {
    EXPECT_EQ(p.cli({"pause", "digits"}).code, 0);
    const json job = job_when(p, [](const json& j) { return j["devices"] == 0; });
    return job["checkpoint"]["step"].get<int64_t>();
  };
  // The rows of the listing, once it has that step and a copy of it.
  const auto listed = [&](int64_t step) {
    return p.until("/v1/functions/default/digits/checkpoints", [&](const json& j) {
      const json& all = j["checkpoints"];
      return std::any_of(all.begin(), all.end(), [&](const json& c) {
        return c["step"] == step && c["copied"].get<bool>();
      });
    })["checkpoints"];
  };
  trained_to(20);
  EXPECT_EQ(p.cli({"get", "checkpoints"}).code, 2);
  EXPECT_THAT(p.cli({"resume", "digits", "--from", "1"}).err, HasSubstr("pause it first"));
  const int64_t first = paused();
  listed(first);
  EXPECT_EQ(p.cli({"resume", "digits"}).code, 0);
  trained_to(first + 20);
  const int64_t second = paused();
  listed(second);
  EXPECT_THAT(
      p.cli({"resume", "digits", "--from", "1"}).err,
      HasSubstr("it has those of " + std::to_string(first) + ", " + std::to_string(second)));

  EXPECT_EQ(p.cli({"resume", "digits", "--from", std::to_string(first)}).out,
            "digits resumed from step " + std::to_string(first) + "\n");
  const json job = job_when(p, [&](const json& j) {
    return j["workers"] == 1 && j["step"] > first && j["step"] < second;
  });
  const std::string table = p.cli({"get", "checkpoints", "digits"}).out;
  EXPECT_THAT(table, HasSubstr("newest"));
  EXPECT_THAT(table, HasSubstr("set aside"));

  const int64_t third = paused();
  listed(third);
  p.stop();
  const std::string own = p.data + "/artifacts/default/digits@1/work";
  for (const auto& entry : std::filesystem::directory_iterator(own))
    std::filesystem::remove_all(entry.path());
  p.launch();
  p.wait_until_serves();
  job_when(p, [&](const json& j) { return j.contains("checkpoint"); });
  EXPECT_EQ(p.cli({"resume", "digits"}).code, 0);
  EXPECT_GT(trained_to(third)["step"], third) << "it went on from the copy";
  EXPECT_EQ(p.cli({"delete", "digits"}).code, 0);
  eventually("the copies are gone",
             [&] { return !std::filesystem::exists(mounted.path + "/default/digits@1"); });
}

// A script that knows torchrun's variables alone is run anew, and goes on from its own checkpoint.
TEST(TrainingFunction, AScriptThatKnowsNothingOfJobsIsRunAnew) {
  Platform p({"--runtime", program("sluice-runtime")});
  const Ended applied = p.cli({"apply", "-f", "-"},
                              "apiVersion: sluice.dev/v1alpha1\n"
                              "kind: TrainingFunction\n"
                              "metadata: {name: count}\n"
                              "spec: {command: [/usr/bin/python3, " SLUICE_PROGRAMS
                              "/counting_script.py, \"500\"], length: 1, mostDevices: 2}\n");
  ASSERT_EQ(applied.code, 0) << applied.err;
  const auto logged = [&](const std::string& line) {
    return [&p, line](const json&) {
      return p.cli({"logs", "count", "--rank", "0"}).out.find(line) != std::string::npos;
    };
  };
  p.until("/v1/instances", logged("rank 0 of 2, restart "));
  kill(p.a_pid("count"), SIGKILL);
  const json f = p.until("/v1/functions/default/count",
                         [](const json& j) { return j["job"]["state"] == "finished"; });
  EXPECT_GE(f["job"]["generation"], 2);
  EXPECT_FALSE(f["job"].contains("loss"));
}

}  // namespace
}  // namespace sluice
