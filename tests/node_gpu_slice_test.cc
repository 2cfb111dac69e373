// A node with emulated GPUs: its devices, the handling of one that fails, and an unmodified CUDA
// program, started as the node says. The device's own log has its use.
#include <gmock/gmock.h>

#include "tests/emulator/health.h"
#include "tests/emulator/identity.h"
#include "tests/support/device_windows.h"
#include "tests/support/eventually.h"
#include "tests/support/led_program.h"
#include "tests/support/node_with_gpus.h"

namespace sluice {
namespace {

using emulator::Machine;
using testing::HasSubstr;

constexpr int kRequest = 200;
constexpr Nanos kKernel = Millis(1);

class GpuSlice : public NodeWithGpus {
 protected:
  // Checks once the device has confirmed the program's reports.
  void expect_held(const char* kind) {
    start_program("cuda1", {SLUICE_CUDA_GREEDY, kind}, Node::slice(kRequest));
    ASSERT_TRUE(eventually("200 ms of work", [&] { return busy(1) >= Millis(200); }));
    expect_share_of_seconds(watch_windows(*machine_, 1), kRequest, kKernel);
    EXPECT_EQ(busy(0), Nanos(0)) << "it sees the device of its slice alone";
  }
};

TEST_F(GpuSlice, TheyAreDevicesBesideTheCpus) {
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

TEST_F(GpuSlice, AnUnmodifiedProgramAt20PercentUsesThatAndAKernelAWindow) {
  expect_held("kernel");
}

TEST_F(GpuSlice, SoDoesOneThatLaunchesGraphs) {
  expect_held("graph");
}

// This process puts itself under a slice, so its children are under it too.
TEST_F(GpuSlice, NvmlShowsAProgramItsSliceAlone) {
  constexpr Bytes kMib = Bytes{1} << 20;
  const json taken = take(getpid(), "cuda1", Node::slice(200, 0, 256 * kMib));
  ASSERT_EQ(taken["status"], 200) << taken;
  auto environment = taken["environment"].get<std::map<std::string, std::string>>();
  environment["LD_PRELOAD"] = SLUICE_NVML_HOOK;
  environment["LD_LIBRARY_PATH"] = SLUICE_EMULATED_DRIVER_FOLDER;
  LedProgram program({SLUICE_NVML_READER, emulator::uuid_text(0), emulator::bus_text(0)},
                     environment);
  const auto devices = [&] { return json::parse(program.ask("look"))["devices"]; };
  ASSERT_EQ(devices().size(), 1u);
  EXPECT_EQ(devices()[0]["uuid"], emulator::uuid_text(1));
  EXPECT_EQ(devices()[0]["memory"], json({256, 0, 256}));
  EXPECT_EQ(node_->call(verb::patch, "/v1/instances/program",
                        {{"slice", Node::slice(200, 0, 128 * kMib)}})["status"],
            200);
  EXPECT_EQ(devices()[0]["memory"], json({128, 0, 128}));
}

TEST_F(GpuSlice, TheModelServerIsNotPutOnOne) {
  const json refused = node_->start("a", 200, "", "cuda0");
  EXPECT_EQ(refused["status"], 400);
  EXPECT_THAT(refused["error"].get<std::string>(), HasSubstr("cuda0 is a GPU"));
}

TEST_F(GpuSlice, AMemoryLimitChangesButNeitherComesNorGoesWhileTheProgramRuns) {
  constexpr Bytes kNone = 0, kSome = 100 << 20, kMore = 200 << 20;
  const auto change = [&](Bytes memory) {
    return node_->call(verb::patch, "/v1/processes/program",
                       {{"slice", Node::slice(200, 0, memory)}});
  };
  EXPECT_EQ(take(getpid(), "cuda0", Node::slice(200, 0, kSome))["status"], 200);
  EXPECT_EQ(change(kMore)["status"], 200);
  EXPECT_THAT(change(kNone)["error"].get<std::string>(), HasSubstr("slice.memory: 0: "));
  node_->call(verb::delete_, "/v1/processes/program", json::object());
  node_->call(verb::delete_, "/v1/processes/program", json::object());  // its name is free
  EXPECT_EQ(take(getpid(), "cuda0", Node::slice(200, 0, kNone))["status"], 200);
  EXPECT_EQ(change(kSome)["status"], 400);
}

TEST_F(GpuSlice, AProgramsObjectiveIsKeptAndChangesWhileItRuns) {
  json slice = Node::slice(200);
  slice.update({{"slo_us", 50'000}, {"tolerance", 1300}});
  ASSERT_EQ(take(getpid(), "cuda0", slice)["status"], 200);
  node_->stop(SIGKILL);
  node_->launch();
  json kept = node_->get("/v1/processes/program")["slice"];
  EXPECT_EQ(kept["slo_us"], 50'000);
  EXPECT_EQ(kept["tolerance"], 1300);
  slice["slo_us"] = 90;
  const json refused = node_->call(verb::patch, "/v1/processes/program", {{"slice", slice}});
  EXPECT_EQ(refused["status"], 400);
  EXPECT_THAT(refused["error"].get<std::string>(), HasSubstr("slice.slo_us: 90 is below 100"));
  const json none =
      node_->call(verb::patch, "/v1/processes/program", {{"slice", Node::slice(200)}});
  EXPECT_EQ(none["slice"]["slo_us"], 0);
}

TEST_F(GpuSlice, OneThatFailsTakesNothingNewUntilSomebodySaysSo) {
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

TEST_F(NodeWithGpus, AProgramOnOneThatWasLostWhileNoDaemonRanIsEndedByTheNext) {
  const pid_t program = start_program("cuda1", {SLUICE_CUDA_GREEDY, "kernel"}, Node::slice(200));
  ASSERT_TRUE(eventually("32 ms of work", [&] { return busy(1) >= Millis(32); }));
  node_->stop(SIGKILL);
  {
    const Machine::Lock lock(*machine_);
    lose(*lock, 1);
  }
  node_->launch();
  EXPECT_EQ(ended_by(program), SIGTERM);
  const json gone = node_->wait("program", "gone");
  EXPECT_THAT(gone["error"].get<std::string>(), HasSubstr("cuda1 failed: "));
  EXPECT_EQ(gone["device_fault"], device("cuda1")["fault"]);
}

class ImpatientNode : public NodeWithGpus {
 protected:
  ImpatientNode() : NodeWithGpus(kTwoGpus, {"--grace-ms", "100"}) {}
};

TEST_F(ImpatientNode, AProgramThatDoesNotHearIsKilledWhenItsTimeIsUp) {
  const std::string script = folder_ + "/deaf";
  std::ofstream(script) << "trap '' TERM; exec " SLUICE_CUDA_GREEDY " kernel";
  const pid_t program = start_program("cuda1", {"/bin/sh", script.c_str()}, Node::slice(200));
  ASSERT_TRUE(eventually("32 ms of work", [&] { return busy(1) >= Millis(32); }));
  {
    const Machine::Lock lock(*machine_);
    raise_xid(*lock, 1, 79);
  }
  EXPECT_EQ(ended_by(program), SIGKILL);
  EXPECT_EQ(node_->wait("program", "gone")["error"], "cuda1 failed: Xid 79");
}

}  // namespace
}  // namespace sluice
