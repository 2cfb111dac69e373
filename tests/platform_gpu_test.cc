// GPUs on a whole platform: a machine of emulated ones, told by the emulated NVML, and a CUDA
// program that knows nothing of Sluice under `sluice run`. What it used says the device's own
// account. One-sided: noise makes a program use less, never more. What is the node daemon's alone
// stands in node_gpu_slice_test.cc.
#include <sys/prctl.h>
#include <sys/wait.h>

#include "emulator/health.h"
#include "emulator/identity.h"
#include "tests/emulated_gpus.h"
#include "tests/platform_harness.h"

namespace sluice {
namespace {

using emulator::Machine;
using testing::HasSubstr;

constexpr double kAtMost = 0.25;  // 20 %, and one kernel of a millisecond in each window of 20

class GpuPlatform : public EmulatedGpus {
 protected:
  GpuPlatform() {
    make("devices=2 memory_mib=1024 nvlinks=4");
    platform_ = std::make_unique<Platform>(
        std::vector<std::string>{"--nvml", SLUICE_EMULATED_NVML, "--price-per-gpu-hour", "2"});
  }
  ~GpuPlatform() override {
    if (program_ > 0) {
      kill(program_, SIGKILL);
      waitpid(program_, nullptr, 0);
    }
    platform_.reset();
  }

  // `sluice run …` of a program that never ends.
  void start_program(const std::string& device) {
    program_ = fork();
    if (program_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("LD_LIBRARY_PATH", SLUICE_EMULATED_DRIVER_FOLDER, 1);
    const std::string sluice = program("sluice");
    execl(sluice.c_str(), sluice.c_str(), "--data", platform_->data.c_str(), "run", "--device",
          device.c_str(), "--quota", "20", "--id", "greedy", "--", SLUICE_CUDA_GREEDY, "kernel",
          nullptr);
    _exit(127);
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

TEST_F(GpuPlatform, AnUnmodifiedProgramAt20PercentUsesThatAndAKernelAWindow) {
  start_program("cuda1");
  ASSERT_TRUE(eventually("32 ms of work", [&] { return busy(1) >= Millis(32); }));
  const SteadyClock clock;
  const Time begin = clock.now();
  const Nanos before = busy(1);
  ASSERT_TRUE(eventually("400 ms of work", [&] { return busy(1) >= before + Millis(400); }));
  const Nanos used = busy(1) - before;
  EXPECT_LE(seconds(used) / seconds(clock.now() - begin), kAtMost);
  EXPECT_EQ(busy(0), Nanos(0)) << "it sees the device of its slice alone";
  const json listed = platform_->get("/v1/instances");
  ASSERT_EQ(listed.size(), 1U) << listed;
  EXPECT_EQ(listed[0]["id"], "greedy");
  EXPECT_EQ(listed[0]["device"], "cuda1");
  EXPECT_EQ(listed[0]["slice"]["request"], 200);
}

TEST_F(GpuPlatform, OneThatFailsIsSaidEverywhereAndTakesNothingNew) {
  ASSERT_EQ(device("cuda1")["fault"], "");  // the daemon listens from now on
  {
    const Machine::Lock lock(*machine_);
    raise_xid(*lock, 0, 13);  // a program's own
    raise_xid(*lock, 1, 79);
  }
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

}  // namespace
}  // namespace sluice
