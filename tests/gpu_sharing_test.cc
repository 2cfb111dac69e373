// Several programs on one modelled GPU under `shares`, each with the hook's own gate and meter over
// pages of its own, which the daemon's meter reads. In virtual time. (The arbiter alone, under
// programs that report exactly: shares_test. More programs and figures: bench/run shares.)
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/gpu_simulation.h"

namespace sluice::policy {
namespace {

using emulator::DeviceSpec;
using emulator::GpuProgram;
using emulator::recorded;

constexpr auto kHooked = GpuSimulation::Hosts::kHooked;

ShareClient client(ClientId id, int request, int from = 0) {
  return {.id = id, .sm = kWhole, .quota = {{request}, kWhole}, .position = {{}, {from}}};
}

double quantile(std::vector<Nanos> all, double part) {
  std::ranges::sort(all);
  return seconds(all.at(static_cast<size_t>(part * static_cast<double>(all.size()))));
}

class GpuSharing : public testing::TestWithParam<bool> {
 protected:
  const DeviceSpec device = DeviceSpec::h200(GetParam());
};
INSTANTIATE_TEST_SUITE_P(, GpuSharing, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "SideBySide" : "TimeSliced");
});

// Of what is used, over seconds.
TEST_P(GpuSharing, GreedyProgramsGetTheirShares) {
  const struct {
    int request;
    Nanos kernel;
  } kPrograms[] = {{200, Micros(50)}, {300, Micros(10)}, {500, Micros(200)}};
  GpuSimulation gpu("shares", device, 1, kHooked);
  int from = 0;
  for (ClientId id = 1; const auto& p : kPrograms) {
    gpu.add(client(id++, p.request, from), emulator::greedy_program(p.kernel));
    from += p.request;
  }
  gpu.run(Seconds(1));
  std::vector<double> used;
  for (ClientId id = 1; id <= 3; ++id) used.push_back(-gpu.used(id));
  gpu.run(Seconds(5));
  for (ClientId id = 1; id <= 3; ++id) used[id - 1] += gpu.used(id);
  const double all = std::accumulate(used.begin(), used.end(), 0.0);
  EXPECT_GE(all, 0.93 * 4) << "the device is kept at work";
  for (ClientId id = 1; id <= 3; ++id)
    EXPECT_NEAR(used[id - 1] / all, kPrograms[id - 1].request / 1000.0, 0.01) << id;
}

// Programs that launch from Python leave most of the device to each other. They wait for it often,
// and none of them stops the others meanwhile.
TEST_P(GpuSharing, EightEagerProgramsGetWhatTheDriverGivesThem) {
  const auto batches = [&](std::string_view arbiter) {
    GpuSimulation gpu(arbiter, device, 1, kHooked);
    for (ClientId id = 1; id <= 8; ++id)
      gpu.add(client(id, 120, 120 * static_cast<int>(id - 1)),
              emulator::loop_program(recorded("launches", "resnet50")));
    gpu.run(Seconds(4));
    int64_t all = 0;
    for (ClientId id = 1; id <= 8; ++id) all += gpu.iterations(id);
    return static_cast<double>(all);
  };
  EXPECT_GE(batches("shares"), 0.95 * batches(""));
}

TEST_P(GpuSharing, IterationsWithAnObjectiveTakeAsLongAsAlone) {
  const GpuProgram serves = emulator::serving_program(recorded("launches", "resnet50"), 0.4);
  const GpuProgram trains =
      emulator::loop_program({emulator::synthetic_training_step(recorded("launches", "bert")[0])});
  GpuSimulation alone("", device), driver("", device), shared("shares", device, 1, kHooked);
  for (GpuSimulation* gpu : {&alone, &driver, &shared}) {
    ShareClient serving = client(1, 400);
    serving.has_slo = true;
    gpu->add(serving, serves);
    if (gpu != &alone) gpu->add(client(2, 600, 400), trains);
    gpu->run(Seconds(8));
  }
  EXPECT_LE(quantile(shared.latencies(1), 0.5), 1.10 * quantile(alone.latencies(1), 0.5));
  EXPECT_LE(quantile(shared.latencies(1), 0.95), 1.10 * quantile(alone.latencies(1), 0.95));
  EXPECT_GE(shared.iterations(2), 0.75 * static_cast<double>(driver.iterations(2)));
}

// The next request often waits already when one ends: the arbiter has to hear of it at once.
TEST_P(GpuSharing, QueuedRequestsWithAnObjectiveAreHeldForToo) {
  const auto graphs = recorded("launches", "resnet50-graph", Micros(150));
  const GpuProgram serves = emulator::serving_program(graphs, 0.4);
  const GpuProgram trains =
      emulator::loop_program({emulator::synthetic_training_step(recorded("launches", "bert")[0])});
  GpuSimulation alone("", device), shared("shares", device, 1, kHooked);
  for (GpuSimulation* gpu : {&alone, &shared}) {
    ShareClient serving = client(1, 700);
    serving.has_slo = true;
    gpu->add(serving, serves);
    if (gpu == &shared) gpu->add(client(2, 300, 700), trains);
    gpu->run(Seconds(5));
  }
  EXPECT_FALSE(shared.queue_grows(1));
  EXPECT_LE(quantile(shared.latencies(1), 0.5), 1.8 * quantile(alone.latencies(1), 0.5));
}

// Its first unit's cost is unknown until it has ended, and nothing follows it until then. Its
// costs are true from then on, and no examination finds otherwise.
TEST_P(GpuSharing, KernelsOf200MsLeaveTheOthersTheirShare) {
  GpuSimulation gpu("shares", device, 1, kHooked);
  gpu.add(client(1, 400), emulator::greedy_program(Micros(50)));
  gpu.add(client(2, 600, 400), emulator::greedy_program(Millis(200)));
  gpu.run(Seconds(8));
  const double all = gpu.used(1) + gpu.used(2);
  EXPECT_GE(all, 0.9 * 8) << "the device is kept at work";
  EXPECT_GE(gpu.used(2) / all, 0.5);
  EXPECT_GE(gpu.used(1), 0.36 * 8);
  EXPECT_GE(std::ranges::min(gpu.used_by_second(1)), 0.25) << "in the second of its examination";
}

// What it really takes counts once it was examined. Its exclusive turns cost both of them time.
TEST_P(GpuSharing, AProgramThatReportsATenthOfItsCostsGetsItsShare) {
  GpuSimulation gpu("shares", device, 1, kHooked);
  GpuProgram misreporting = emulator::greedy_program(Micros(50));
  misreporting.reported_cost = 0.1;
  gpu.add(client(1, 400), emulator::greedy_program(Micros(50)));
  gpu.add(client(2, 600, 400), misreporting);
  gpu.run(Seconds(5));
  const double honest = gpu.used(1), other = gpu.used(2);
  gpu.run(Seconds(10));
  EXPECT_GE(gpu.used(1) - honest, 0.9 * 0.4 * 5);
  EXPECT_LE(gpu.used(2) - other, 1.1 * 0.6 * 5);
}

}  // namespace
}  // namespace sluice::policy
