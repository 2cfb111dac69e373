// A node with GPUs, emulated ones: which devices it has, what becomes of one that fails, and a CUDA
// program that knows nothing of Sluice, started as the node says. What it used says the device's
// own account. One-sided: noise makes a program use less, never more.
#include <gmock/gmock.h>

#include "base/eventually_for_test.h"
#include "emulator/health.h"
#include "emulator/identity.h"
#include "tests/emulated_gpus.h"
#include "tests/node_harness.h"

namespace sluice {
namespace {

using emulator::Machine;
using testing::HasSubstr;

constexpr double kAtMost = 0.25;  // 20 %, and one kernel of a millisecond in each window of 20

class NodeWithGpus : public EmulatedGpus {
 protected:
  NodeWithGpus() {
    make("devices=2 memory_mib=1024 nvlinks=4");
    node_ = std::make_unique<Node>(
        std::vector<std::string>{"--nvml", SLUICE_EMULATED_NVML, "--price-per-gpu-hour", "2"});
  }
  ~NodeWithGpus() override {
    if (program_ > 0) {
      kill(program_, SIGKILL);
      waitpid(program_, nullptr, 0);
    }
    node_.reset();
  }

  json device(const std::string& id) {
    const json state = node_->get("/v1/state");
    for (const json& d : state["devices"])
      if (d["id"] == id) return d;
    return nullptr;
  }
  json take(pid_t pid, const std::string& on) {
    return node_->call(
        verb::post, "/v1/processes",
        {{"id", "greedy"}, {"pid", pid}, {"device", on}, {"slice", Node::slice(200)}});
  }

  // Puts a child under a slice of 20 %, and lets it become the program, as `sluice run` does
  // itself.
  void start_program(const std::string& on, const char* kind) {
    int lines[2];
    ASSERT_EQ(pipe(lines), 0);
    program_ = fork();
    if (program_ == 0) become_program(lines, kind);
    close(lines[0]);
    const json taken = take(program_, on);
    EXPECT_EQ(taken["status"], 200) << taken;
    EXPECT_EQ(taken["gate"], "libsluice_cuda.so");
    std::string text = "LD_PRELOAD=" SLUICE_CUDA_HOOK "\nLD_LIBRARY_PATH=" +
                       std::string(SLUICE_EMULATED_DRIVER_FOLDER) + "\n";
    for (const auto& [name, value] : taken["environment"].items())
      text += name + "=" + value.get<std::string>() + "\n";
    EXPECT_EQ(write(lines[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(lines[1]);
  }
  [[noreturn]] static void become_program(const int (&lines)[2], const char* kind) {
    close(lines[1]);
    FILE* in = fdopen(lines[0], "r");
    char line[4096];
    while (fgets(line, sizeof line, in) != nullptr) {
      line[strcspn(line, "\n")] = 0;
      putenv(strdup(line));
    }
    execl(SLUICE_CUDA_GREEDY, SLUICE_CUDA_GREEDY, kind, nullptr);
    _exit(127);
  }

  Nanos busy(unsigned device) {
    const Machine::Lock lock(*machine_);
    return Nanos(lock->devices[device].device_busy_ns());
  }
  double share_over(unsigned device, Nanos span) {
    const SteadyClock clock;
    const Time begin = clock.now();
    const Nanos before = busy(device);
    usleep(static_cast<useconds_t>(span / Micros(1)));
    const Nanos used = busy(device) - before;
    return seconds(used) / seconds(clock.now() - begin);
  }
  void expect_held(const char* kind) {
    start_program("cuda1", kind);
    ASSERT_TRUE(eventually("32 ms of work", [&] { return busy(1) >= Millis(32); }));
    const double share = share_over(1, Seconds(2));
    EXPECT_LE(share, kAtMost);
    EXPECT_GT(share, 0);
    EXPECT_EQ(busy(0), Nanos(0)) << "it sees the device of its slice alone";
    std::printf("share %.3f\n", share);
  }

  std::unique_ptr<Node> node_;
  pid_t program_ = 0;
};

TEST_F(NodeWithGpus, TheyAreDevicesBesideTheCpus) {
  const json gpu = device("cuda1");
  ASSERT_TRUE(gpu.is_object()) << node_->log();
  EXPECT_EQ(gpu["kind"], "cuda");
  EXPECT_EQ(gpu["uuid"], emulator::uuid_text(1));
  EXPECT_EQ(gpu["memory"], Bytes{1} << 30);
  EXPECT_EQ(gpu["sms"], 132);
  EXPECT_EQ(gpu["can_resize_sm"], false);
  EXPECT_EQ(gpu["price_per_hour"], 2);
  EXPECT_EQ(gpu["links"], json::parse(R"([{"to": "cuda0", "nvlinks": 4, "path": "PIX"}])"));
  EXPECT_EQ(device("cpu0")["kind"], "cpu");
}

TEST_F(NodeWithGpus, AnUnmodifiedProgramAt20PercentUsesThatAndAKernelAWindow) {
  expect_held("kernel");
}

TEST_F(NodeWithGpus, SoDoesOneThatLaunchesGraphs) {
  expect_held("graph");
}

TEST_F(NodeWithGpus, TheModelServerIsNotPutOnOne) {
  const json refused = node_->start("a", 200, "", "cuda0");
  EXPECT_EQ(refused["status"], 400);
  EXPECT_THAT(refused["error"].get<std::string>(), HasSubstr("cuda0 is a GPU"));
}

TEST_F(NodeWithGpus, OneThatFailsTakesNothingNewUntilSomebodySaysSo) {
  ASSERT_EQ(device("cuda1")["fault"], "");  // the daemon listens from now on
  {
    const Machine::Lock lock(*machine_);
    raise_xid(*lock, 0, 13);  // a program's own
    raise_xid(*lock, 1, 79);
  }
  EXPECT_TRUE(eventually("the fault", [&] { return device("cuda1")["fault"] == "Xid 79"; }));
  EXPECT_EQ(device("cuda1")["drained"], true);
  EXPECT_EQ(device("cuda0")["drained"], false);

  node_->restart();  // the next daemon knows it too
  EXPECT_EQ(device("cuda1")["fault"], "Xid 79");
  const json refused = take(getpid(), "cuda1");
  EXPECT_EQ(refused["status"], 429);
  EXPECT_THAT(refused["error"].get<std::string>(), HasSubstr("cuda1 is drained (Xid 79)"));

  EXPECT_EQ(node_->call(verb::patch, "/v1/devices/cuda1", {{"drained", false}})["status"], 200);
  EXPECT_EQ(device("cuda1")["fault"], "");
  EXPECT_EQ(take(getpid(), "cuda1")["status"], 200);
}

}  // namespace
}  // namespace sluice
