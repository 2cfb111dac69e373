// The device model, with what is assumed of an H200, beside an earlier model of it, whose figures
// lay between the several runs on the device or near them (bench/gpu/README.md, Results): programs
// recorded there, under the driver alone and under exclusive turns.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/gpu_simulation.h"

namespace sluice::policy {
namespace {

using emulator::DeviceSpec;
using emulator::GpuProgram;
using emulator::recorded;

constexpr double kWithin = 0.15;

double quantile(std::vector<Nanos> all, double part) {
  std::ranges::sort(all);
  return seconds(all.at(static_cast<size_t>(part * static_cast<double>(all.size()))));
}

// Eager ResNet-50 at 40 % load beside training.
struct Beside {
  double p50, p95, training;
};
Beside eager_beside_training(std::string_view arbiter, bool side_by_side,
                             Nanos time = Seconds(20)) {
  const GpuProgram serves = emulator::serving_program(recorded("launches", "resnet50"), 0.4);
  const GpuProgram trains =
      emulator::loop_program({emulator::synthetic_training_step(recorded("launches", "bert")[0])});
  const DeviceSpec device = DeviceSpec::h200(side_by_side);
  const ShareClient serving{.id = 1, .sm = kWhole, .quota = {{400}, kWhole}, .has_slo = true};
  const ShareClient training{
      .id = 2, .sm = kWhole, .quota = {{600}, kWhole}, .position = {{}, {400}}};
  GpuSimulation alone("", device), trained_alone("", device), both(arbiter, device);
  alone.add(serving, serves);
  trained_alone.add(training, trains);
  both.add(serving, serves);
  both.add(training, trains);
  for (GpuSimulation* gpu : {&alone, &trained_alone, &both}) gpu->run(time);
  return {.p50 = quantile(both.latencies(1), 0.5) / quantile(alone.latencies(1), 0.5),
          .p95 = quantile(both.latencies(1), 0.95) / quantile(alone.latencies(1), 0.95),
          .training = static_cast<double>(both.iterations(2)) /
                      static_cast<double>(trained_alone.iterations(2))};
}

void expect_about(double value, double measured) {
  EXPECT_NEAR(value, measured, kWithin * measured);
}

TEST(DeviceCalibration, EagerInferenceBesideTrainingTimeSliced) {
  const Beside both = eager_beside_training("", false);
  expect_about(both.p50, 1.30);
  expect_about(both.p95, 1.16);
  expect_about(both.training, 0.76);
}

TEST(DeviceCalibration, EagerInferenceBesideTrainingUnderMps) {
  const Beside both = eager_beside_training("", true);
  expect_about(both.p50, 2.55);
  expect_about(both.p95, 2.84);
  expect_about(both.training, 0.90);
}

TEST(DeviceCalibration, UnderExclusiveTurnsTheQueueGrows) {
  const Beside both = eager_beside_training("planned", false, Seconds(120));
  EXPECT_GT(both.p50, 50);
  expect_about(both.training, 0.62);
}

// Of batch 4, as those that ran on the H200: kernels 1.9 times as long.
TEST(DeviceCalibration, EightEagerInstances) {
  const auto runs = recorded("launches", "resnet50", Nanos(0), 1.9);
  for (const auto& [side_by_side, measured] : {std::pair(false, 480.0), std::pair(true, 696.0)}) {
    GpuSimulation gpu("", DeviceSpec::h200(side_by_side));
    for (ClientId id = 1; id <= 8; ++id)
      gpu.add({.id = id, .sm = kWhole, .quota = {{120}, kWhole}}, emulator::loop_program(runs));
    gpu.run(Seconds(5));
    int64_t all = 0;
    for (ClientId id = 1; id <= 8; ++id) all += gpu.iterations(id);
    expect_about(static_cast<double>(all) / 5, measured);
  }
}

}  // namespace
}  // namespace sluice::policy
