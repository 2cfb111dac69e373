// GPUs on a whole platform: a machine of emulated ones, described by the emulated NVML, and an
// unmodified CUDA program under `sluice run`. The device's own log has its use.
// node_gpu_slice_test.cc has what concerns only the node daemon.
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>

#include "tests/emulator/health.h"
#include "tests/emulator/identity.h"
#include "tests/support/device_windows.h"
#include "tests/support/emulated_gpus.h"
#include "tests/support/platform.h"

namespace sluice {
namespace {

using emulator::Machine;
using testing::HasSubstr;

constexpr int kRequest = 200;
constexpr Nanos kKernel = Millis(1);

class GpuPlatform : public EmulatedGpus {
 protected:
  explicit GpuPlatform(const char* gpus = "devices=2 memory_mib=1024 nvlinks=4",
                       std::vector<std::string> flags = {"--price-per-gpu-hour", "2"}) {
    make(gpus);
    flags.insert(flags.end(), {"--nvml", SLUICE_EMULATED_NVML});
    platform_ = std::make_unique<Platform>(flags);
  }
  ~GpuPlatform() override {
    kill_program();
    platform_.reset();
  }

  // Runs `sluice run …` with a program that never ends; its output goes to said().
  void start_program(std::vector<std::string> flags = {},
                     std::vector<std::string> command = {SLUICE_CUDA_GREEDY, "kernel"},
                     const std::string& devices = "cuda1") {
    std::vector<std::string> words{
        program("sluice"), "--data", platform_->data, "run",   "--device", devices,
        "--quota",         "20",     "--id",          "greedy"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    program_ = fork();
    if (program_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (freopen((folder_ + "/said").c_str(), "w", stderr) == nullptr) _exit(126);
    setenv("LD_LIBRARY_PATH", SLUICE_EMULATED_DRIVER_FOLDER, 1);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int exit_code_of_program() {
    int status = 0;
    waitpid(std::exchange(program_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void kill_program() {
    if (program_ <= 0) return;
    kill(program_, SIGKILL);
    exit_code_of_program();
  }
  std::string said() const {
    std::ifstream file(folder_ + "/said");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  testing::AssertionResult works(unsigned device) {
    const Nanos before = busy(device);
    return eventually("32 ms of work", [&] { return busy(device) >= before + Millis(32); });
  }
  // Waits until the program has its pages, and its use is counted. A launch waits 100 ms for them
  // and then goes on without, which is no fault if the daemon was kept from the processor.
  void await_held() {
    platform_->until("/v1/instances", [](const json& all) {
      return std::ranges::any_of(
          all, [](const json& i) { return i["id"] == "greedy" && i.value("used_ms", 0) > 0; });
    });
  }
  void fail_device(unsigned number) {
    const Machine::Lock lock(*machine_);
    raise_xid(*lock, number, 79);
  }
  json instance(const std::string& id) const {
    for (const json& i : platform_->get("/v1/instances"))
      if (i["id"] == id) return i;
    return {};
  }

  Nanos busy(unsigned device) {
    const Machine::Lock lock(*machine_);
    return Nanos(lock->devices[device].device_busy_ns());
  }
  json device(const std::string& id) const {
    for (const json& d : platform_->get("/v1/devices"))
      if (d["id"] == id) return d;
    return {};
  }

  std::unique_ptr<Platform> platform_;
  pid_t program_ = 0;
};

TEST_F(GpuPlatform, GpusAreListedAndDescribed) {
  const json gpu = device("cuda1");
  ASSERT_TRUE(gpu.is_object()) << platform_->get("/v1/devices");
  EXPECT_EQ(gpu["uuid"], emulator::uuid_text(1));
  EXPECT_EQ(gpu["price_per_hour"], 2);
  EXPECT_THAT(platform_->cli({"get", "devices"}).out, HasSubstr("132 SM"));
  const Ended described = platform_->cli({"describe", "device", emulator::uuid_text(1)});
  EXPECT_EQ(described.code, 0) << described.err;
  EXPECT_THAT(described.out, HasSubstr("compute capability 9.0"));
  EXPECT_THAT(described.out, HasSubstr("LINK-TO  NVLINKS  PCIE\ncuda0"));
  EXPECT_THAT(platform_->cli({"describe", "device", "cuda7"}).err, HasSubstr("not found"));
}

TEST_F(GpuPlatform, FunctionsStayOnCpus) {
  platform_->deploy({.name = "f", .replicas = 2});
  for (const json& i : platform_->instances())
    EXPECT_THAT(i["device"].get<std::string>(), testing::StartsWith("cpu"));
}

// A function whose server replays a recorded ResNet-50, as fast as it was. It speaks as much of the
// protocol as the gateway looks at.
class GpuFunction : public GpuPlatform {
 protected:
  // The build's folders may be closed to instances: the driver is copied.
  GpuFunction() { std::filesystem::copy(SLUICE_EMULATED_DRIVER_FOLDER "/libcuda.so.1", folder_); }

  // `more`: lines of its spec.
  std::string file_of(const std::string& more) const {
    return "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\nmetadata: {name: "
           "f}\nspec:\n" +
           more +
           "  containerConcurrency: 1\n  server:\n    command: [replay_server]\n    args: [" +
           std::string(getenv("SLUICE_EMULATED_GPU")) +
           ", resnet50-graph]\n    files: [" SLUICE_REPLAY_SERVER ", " SLUICE_LAUNCHES
           "/launches/resnet50-graph]\n    env: {LD_LIBRARY_PATH: " +
           folder_ + "}\n    readiness: /healthz\n";
  }
  void deploy(const std::string& more) {
    const Ended applied = platform_->cli({"apply", "-f", "-"}, file_of(more));
    ASSERT_EQ(applied.code, 0) << applied.err;
    platform_->wait_until_settled("f", 1);
  }
  json the_instance() const { return platform_->instances().at(0); }
  static bool is_ready(const json& i) {
    return i.value("function", "") == "default/f" && i["state"] == "ready";
  }
};
constexpr char kHalfAGpu[] =
    "  device: cuda\n  policy: fixed\n  slice: {quota: {request: 50%}, memory: 512Mi}\n";

TEST_F(GpuFunction, AProgramWithDeviceCudaServesOnAGpu) {
  deploy(kHalfAGpu);
  const json i = the_instance();
  EXPECT_THAT(i["device"].get<std::string>(), testing::StartsWith("cuda")) << i;
  const unsigned number = i["device"] == "cuda0" ? 0 : 1;
  const Nanos before = busy(number);
  Load load(*platform_, 100);
  load.flows(20);
  EXPECT_EQ(load.end().failed, 0);
  EXPECT_GE(busy(number) - before, 20 * Micros(700));
  EXPECT_TRUE(
      eventually("its use is counted", [&] { return the_instance().value("used_ms", 0) > 0; }));
}

TEST_F(GpuFunction, ItsTimesAreMeasuredOnAGpuAndHasGpuResizesItByThem) {
  const std::string file = folder_ + "/f.yaml", body = folder_ + "/body";
  const std::string objective = "  device: cuda\n  slo: {latency: 30ms}\n";
  std::ofstream(file) << file_of(objective);
  std::ofstream(body) << "{}";
  const Ended profiled = platform_->cli(
      {"profile", "-f", file, "--body", body, "--quotas", "100,40", "--seconds", "0.2"});
  ASSERT_EQ(profiled.code, 0) << profiled.err;
  EXPECT_THAT(profiled.out, HasSubstr("replay_server on Sluice emulated GPU"));
  const json profile = platform_->get("/v1/profiles").at(0);
  EXPECT_GE(profile["memory"], 256 << 20) << "its context's, too: " << profile;
  deploy(objective);
  const int before = the_instance()["slice"]["request"];
  const Load load(*platform_, 600);
  platform_->until("/v1/instances", [&](const json& all) {
    return std::ranges::any_of(
        all, [&](const json& i) { return is_ready(i) && i["slice"]["request"] > before; });
  });
}

// Its results are worthless from then on, so it is not left there; but its replacement comes first.
TEST_F(GpuFunction, OnAFailingGpuItIsReplacedBeforeItEnds) {
  deploy(kHalfAGpu);
  const json failing = the_instance()["device"];
  fail_device(failing == "cuda0" ? 0 : 1);
  bool gap = false;
  platform_->until("/v1/instances", [&](const json& all) {
    const auto ready = std::ranges::count_if(all, is_ready);
    gap |= ready == 0;
    return ready == 1 && std::ranges::none_of(all, [&](const json& i) {
             return is_ready(i) && i["device"] == failing;
           });
  });
  EXPECT_FALSE(gap);
}

// Where libcuda.so, without a number, is the hook (delivery_test).
TEST_F(GpuPlatform, AProgramsLoaderLooksForTheDriverBesideTheHookFirst) {
  start_program({}, {"/bin/sh", "-c", "echo \"$LD_LIBRARY_PATH\" >&2"});
  EXPECT_EQ(exit_code_of_program(), 0);
  const auto folder = std::filesystem::path(program("sluice")).parent_path() / "driver";
  EXPECT_THAT(said(), HasSubstr(folder.string() + ":" SLUICE_EMULATED_DRIVER_FOLDER "\n"));
  EXPECT_TRUE(std::filesystem::exists(folder / "libcuda.so"));
}

TEST_F(GpuPlatform, AnUnmodifiedProgramAt20PercentUsesThatAndAKernelAWindow) {
  start_program();
  ASSERT_TRUE(works(1));
  await_held();
  ASSERT_TRUE(eventually("200 ms of work", [&] { return busy(1) >= Millis(200); }));
  expect_share_of_seconds(watch_windows(*machine_, 1), kRequest, kKernel);
  EXPECT_EQ(busy(0), Nanos(0)) << "it sees the device of its slice alone";
  const json listed = platform_->get("/v1/instances");
  ASSERT_EQ(listed.size(), 1U) << listed;
  EXPECT_EQ(listed[0]["id"], "greedy");
  EXPECT_EQ(listed[0]["device"], "cuda1");
  EXPECT_EQ(listed[0]["slice"]["request"], kRequest);
}

TEST_F(GpuPlatform, WhatAProgramHoldsOfTheMemoryItMayHoldIsListed) {
  const std::string in = folder_ + "/in";
  ASSERT_EQ(mkfifo(in.c_str(), 0600), 0);
  std::fstream tell(in);
  start_program({"--memory", "512Mi"}, {"/bin/sh", "-c", "exec " SLUICE_CUDA_MEMORY " <" + in});
  tell << "plain 2" << std::endl;
  platform_->until("/v1/instances", [](const json& all) {
    return std::ranges::any_of(all, [](const json& i) { return i.value("memory_held", 0) > 0; });
  });
  EXPECT_THAT(platform_->cli({"get", "instances"}).out, HasSubstr("of 512Mi"));
  wire::HttpClient client({.path = platform_->data + "/run/api.sock"}, kPatience);
  const auto metrics = client.call(verb::get, "/metrics");
  ASSERT_TRUE(metrics.ok());
  EXPECT_THAT(metrics->body(), HasSubstr("sluice_instance_device_memory_limit_bytes{instance="
                                         "\"greedy\",device=\"cuda1\"} 536870912"));
  EXPECT_EQ(platform_->cli({"resize", "greedy", "--memory", "768Mi"}).code, 0);
  EXPECT_THAT(platform_->cli({"get", "instances"}).out, HasSubstr(" of 768Mi")) << "at once";
}

TEST_F(GpuPlatform, AProgramThatPassesTheHookIsSaidEverywhere) {
  start_program(
      {}, {"/usr/bin/env", "-u", "LD_PRELOAD", "LD_LIBRARY_PATH=" SLUICE_EMULATED_DRIVER_FOLDER,
           SLUICE_CUDA_GREEDY, "kernel"});
  platform_->until("/v1/instances", [](const json& all) {
    return std::ranges::any_of(all, [](const json& i) { return i.value("ungated_ms", 0) > 0; });
  });
  EXPECT_THAT(platform_->cli({"get", "instances"}).out, HasSubstr("uses its GPU past the hook"));
  EXPECT_THAT(platform_->cli({"get", "decisions"}).out,
              HasSubstr("A process of greedy uses cuda1 past the hook"));
  wire::HttpClient client({.path = platform_->data + "/run/api.sock"}, kPatience);
  const auto metrics = client.call(verb::get, "/metrics");
  ASSERT_TRUE(metrics.ok());
  EXPECT_THAT(metrics->body(), HasSubstr("sluice_instance_ungated_seconds_total{instance="
                                         "\"greedy\",device=\"cuda1\"} "));
}

TEST_F(GpuPlatform, OneThatFailsIsSaidEverywhereAndTakesNothingNew) {
  ASSERT_EQ(device("cuda1")["fault"], "");  // the daemon listens from now on
  fail_device(1);
  platform_->until("/v1/devices", [](const json& devices) {
    return std::ranges::any_of(devices, [](const json& d) { return d["fault"] == "Xid 79"; });
  });
  EXPECT_EQ(device("cuda0")["drained"], false);
  EXPECT_THAT(platform_->cli({"get", "devices"}).out, HasSubstr("failing: Xid 79"));
  EXPECT_THAT(platform_->cli({"get", "decisions"}).out, HasSubstr("Device cuda1 fails: Xid 79"));
  wire::HttpClient client({.path = platform_->data + "/run/api.sock"}, kPatience);
  const auto metrics = client.call(verb::get, "/metrics");
  ASSERT_TRUE(metrics.ok());
  EXPECT_THAT(metrics->body(), HasSubstr("sluice_device_failing{device=\"cuda1\"} 1"));
  EXPECT_THAT(metrics->body(), HasSubstr("sluice_device_failing{device=\"cuda0\"} 0"));

  const std::vector<std::string> run{"run", "--device", "cuda1", "--", "/bin/true"};
  const Ended refused = platform_->cli(run);
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("cuda1 is drained (Xid 79)"));
  EXPECT_EQ(platform_->cli({"undrain", "cuda1"}).code, 0);
  EXPECT_EQ(platform_->cli(run).code, 0);
}

class SplitGpu : public GpuPlatform {
 protected:
  SplitGpu() : GpuPlatform("devices=1 mig=1", {}) {}
};

TEST_F(SplitGpu, IsDrainedForAReasonAndDoesNotFail) {
  EXPECT_THAT(platform_->cli({"get", "devices"}).out,
              HasSubstr("drained: it is split by MIG, and only whole GPUs are given out"));
  EXPECT_THAT(platform_->cli({"describe", "device", "cuda0"}).out, HasSubstr("MIG: on"));
  EXPECT_THAT(platform_->cli({"get", "decisions"}).out, testing::Not(HasSubstr("fails")));
  wire::HttpClient client({.path = platform_->data + "/run/api.sock"}, kPatience);
  const auto metrics = client.call(verb::get, "/metrics");
  ASSERT_TRUE(metrics.ok());
  EXPECT_THAT(metrics->body(), HasSubstr("sluice_device_failing{device=\"cuda0\"} 0"));
  EXPECT_THAT(metrics->body(), HasSubstr("sluice_device_drained{device=\"cuda0\"} 1"));
  EXPECT_THAT(platform_->cli({"undrain", "cuda0"}).err, HasSubstr("cuda0 stays drained"));
}

class GpuWithStore : public GpuPlatform {
 protected:
  GpuWithStore() : GpuPlatform("devices=1 memory_mib=1024", {"--gpu-store", "256MiB"}) {}
};

TEST_F(GpuWithStore, SetsMemoryAsideAndTellsProgramsWhereTheStoreIs) {
  EXPECT_EQ(device("cuda0")["memory"], Bytes{768} << 20);
  const Ended ran = platform_->cli(
      {"run", "--device", "cuda0", "--function", "vision/vit", "--", "/usr/bin/env"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out,
              HasSubstr("SLUICE_MODEL_STORE=" + platform_->data + "/run/store/cuda0.sock"));
  platform_->until("/v1/instances", [](const json& all) {
    return std::ranges::any_of(all, [](const json& i) { return i["function"] == "vision/vit"; });
  });
}

TEST_F(GpuPlatform, AProgramOnAGpuThatFailsIsEndedAndTheReasonIsSaid) {
  start_program();
  ASSERT_TRUE(works(1));
  fail_device(1);
  EXPECT_EQ(exit_code_of_program(), 75);
  EXPECT_THAT(said(), HasSubstr("greedy was ended: cuda1 failed: Xid 79"));
  platform_->until("/v1/instances", [](const json& all) {
    return std::ranges::any_of(
        all, [](const json& i) { return i["id"] == "greedy" && i["state"] == "gone"; });
  });
  EXPECT_THAT(platform_->cli({"get", "instances"}).out, HasSubstr("cuda1 failed: Xid 79"));
  EXPECT_THAT(platform_->cli({"get", "decisions"}).out, HasSubstr("Program greedy was ended"));
}

TEST_F(GpuPlatform, AProgramOnTwoGpusIsHeldOnBothAndEndsWithEither) {
  start_program({}, {SLUICE_CUDA_GREEDY, "devices"}, "cuda0,cuda1");
  ASSERT_TRUE(works(0) && works(1));
  await_held();
  EXPECT_EQ(platform_->cli({"resize", "greedy", "--quota", "30"}).code, 0);
  platform_->until("/v1/instances", [](const json& all) {
    return std::ranges::any_of(all, [](const json& i) {
      return i["parts"].size() == 2 && i["parts"][0]["slice"]["request"] == 300 &&
             i["parts"][1]["slice"]["request"] == 300;
    });
  });
  EXPECT_THAT(
      platform_->cli({"run", "--restart", "--device", "cuda0,cuda1", "--", "/bin/true"}).err,
      HasSubstr("--restart: is for a program on one device"));
  fail_device(1);
  EXPECT_EQ(exit_code_of_program(), 75);
  EXPECT_THAT(said(), HasSubstr("greedy was ended: cuda1 failed: Xid 79"));
}

TEST_F(GpuPlatform, OneThatWishesItGoesOnElsewhereAsLongAsThereIsAnother) {
  // A shell that stays: all processes of its slice are ended, not only the first.
  start_program({"--restart"}, {"/bin/sh", "-c", SLUICE_CUDA_GREEDY " kernel; true"});
  ASSERT_TRUE(works(1));
  fail_device(1);
  ASSERT_TRUE(works(0)) << said();
  EXPECT_THAT(said(), HasSubstr("greedy was ended: cuda1 failed: Xid 79"));
  fail_device(0);
  EXPECT_EQ(exit_code_of_program(), 75);
  EXPECT_THAT(said(), HasSubstr("greedy-2 was ended: cuda0 failed: Xid 79"));
  EXPECT_THAT(said(), HasSubstr("no device takes anything new; cuda0 is drained"));
}

TEST_F(GpuPlatform, ASignalForSluiceRunIsItsPrograms) {
  start_program();
  ASSERT_TRUE(works(1));
  kill(program_, SIGTERM);
  EXPECT_EQ(exit_code_of_program(), 128 + SIGTERM);
  EXPECT_EQ(platform_->cli({"run", "--device", "cuda1", "--", "/bin/sh", "-c", "exit 3"}).code, 3);
}

}  // namespace
}  // namespace sluice
