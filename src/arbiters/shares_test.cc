// The `shares` arbiter on a modelled GPU, in virtual time. (Figures with recorded programs, beside
// the driver alone: bench/run shares.)
#include "arbiters/shares.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "tests/support/gpu_simulation.h"
#include "tests/support/sanitizers.h"

namespace sluice::policy {
namespace {

using emulator::DeviceSpec;
using emulator::GpuProgram;
using emulator::greedy_program;
using emulator::HostLaunch;
using emulator::HostRun;
using testing::HasSubstr;

ShareClient client(ClientId id, int request, bool has_slo = false, int limit = 1000) {
  return {.id = id, .sm = kWhole, .quota = {{request}, {limit}}, .has_slo = has_slo};
}

// Many short kernels, launched by a slow host: a fifth of the time is the device's.
HostRun eager_run() {
  const GpuProgram kernel = greedy_program(Micros(4), Micros(20));
  return HostRun(200, kernel.runs[0][0]);
}
// Wide kernels, launched faster than they run.
HostRun training_step() {
  const GpuProgram kernel = greedy_program(Micros(60), Micros(15));
  return HostRun(300, kernel.runs[0][0]);
}

double mean(const std::vector<Nanos>& all) {
  return seconds(std::accumulate(all.begin(), all.end(), Nanos(0))) /
         static_cast<double>(all.size());
}

// --- what several do at once ---------------------------------------------------------------------

class OnBothKinds : public testing::TestWithParam<bool> {
 protected:
  DeviceSpec device() const { return DeviceSpec::h200(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(, OnBothKinds, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("side_by_side") : std::string("time_sliced");
});

TEST_P(OnBothKinds, AnObjectiveIsKeptBesideTrainingThatGoesOn) {
  const GpuProgram serves = emulator::serving_program({eager_run()}, 0.4);
  const GpuProgram trains = emulator::loop_program({training_step()});
  GpuSimulation alone("", device()), driver("", device()), shared("shares", device());
  alone.add(client(1, 400, true), serves);
  for (GpuSimulation* gpu : {&driver, &shared}) {
    gpu->add(client(1, 400, true), serves);
    gpu->add(client(2, 600), trains);
  }
  for (GpuSimulation* gpu : {&alone, &driver, &shared}) gpu->run(Seconds(5));
  ASSERT_GT(alone.iterations(1), 300);
  EXPECT_LE(mean(shared.latencies(1)), 1.15 * mean(alone.latencies(1)));
  EXPECT_GE(shared.iterations(2), 0.9 * driver.iterations(2));
}

// The host is the slower one: permits that exclude each other lose four fifths of it.
TEST_P(OnBothKinds, ProgramsOfSlowHostsLoseNothingToEachOther) {
  GpuSimulation driver("", device()), shared("shares", device()), exclusive("planned", device());
  for (GpuSimulation* gpu : {&driver, &shared, &exclusive}) {
    for (int i = 1; i <= 5; ++i) {
      ShareClient c = client(i, 200);
      c.position.time_begin = {200 * (i - 1)};
      gpu->add(c, emulator::loop_program({eager_run()}));
    }
    gpu->run(Seconds(3));
  }
  const auto all = [](const GpuSimulation& gpu) {
    int64_t sum = 0;
    for (int i = 1; i <= 5; ++i) sum += gpu.iterations(i);
    return static_cast<double>(sum);
  };
  EXPECT_GE(all(shared), 0.95 * all(driver));
  EXPECT_LE(all(exclusive), 0.6 * all(driver));
}

// --- shares --------------------------------------------------------------------------------------

constexpr Nanos kLong = Seconds(4);

struct Load {
  int request;
  Nanos kernel;
};
void expect_shares(const std::vector<Load>& loads, const DeviceSpec& device, uint64_t seed = 1) {
  GpuSimulation gpu("shares", device, seed);
  ClientId id = 0;
  for (const Load& load : loads)
    gpu.add(client(++id, load.request),
            greedy_program(load.kernel, std::min<Nanos>(load.kernel, Micros(4))));
  gpu.run(kLong);
  double all = 0;
  for (ClientId c = 1; c <= id; ++c) all += gpu.used(c);
  EXPECT_GE(all, 0.93 * seconds(kLong));
  for (ClientId c = 1; c <= id; ++c) {
    const double share = loads[c - 1].request / 1000.0;
    EXPECT_NEAR(gpu.used(c) / all, share, 0.02) << "client " << c;
    // A second has its share up to a turn, and one of the longest units.
    const Nanos longest = std::ranges::max(loads, {}, &Load::kernel).kernel;
    const auto& seconds_of = gpu.used_by_second(c);
    for (size_t s = 1; s < seconds_of.size(); ++s)
      EXPECT_GE(seconds_of[s], 0.9 * share - 0.01 - seconds(longest))
          << "client " << c << ", " << s;
  }
}

TEST_P(OnBothKinds, GreedyClientsGetTheirSharesWhateverTheirKernels) {
  expect_shares({{200, Micros(50)}, {300, Micros(50)}, {500, Micros(50)}}, device());
  expect_shares({{50, Micros(50)}, {950, Micros(50)}}, device());
  for (const Nanos kernel :
       {Nanos(Micros(2)), Nanos(Micros(500)), Nanos(Millis(20)), Nanos(Millis(200))}) {
    SCOPED_TRACE(seconds(kernel));
    expect_shares({{400, Micros(50)}, {600, kernel}}, device());
  }
}

TEST_P(OnBothKinds, AnyGreedyClientsDo) {
  for (uint64_t seed = 1; seed <= (sanitized() ? 1 : 8); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<Load> loads;
    for (int left = 1000; left >= 50 && loads.size() < 8;) {
      const int request = static_cast<int>(random.between(50, left));
      loads.push_back({request, from_seconds(2e-6 * std::pow(1e4, random.uniform()))});
      left -= request;
      if (left < 50) loads.back().request += left;
    }
    const int unclaimed =
        1000 - std::accumulate(loads.begin(), loads.end(), 0,
                               [](int s, const Load& l) { return s + l.request; });
    loads.back().request += unclaimed;
    expect_shares(loads, device(), seed);
  }
}

// One that always wants has its share in each second, whatever the others are and do: kernels of
// any length, iterations with an objective, pauses, resizes, deaths, stops.
TEST_P(OnBothKinds, AClientHasItsShareWhateverTheOthersDo) {
  for (uint64_t seed = 1; seed <= (sanitized() ? 1 : 12); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    GpuSimulation gpu("shares", device(), seed);
    constexpr int kRequest = 300, kOthers = 5;
    gpu.add(client(1, kRequest), greedy_program(Micros(50)));
    Nanos longest = Micros(50);
    for (ClientId id = 2; id < 2 + kOthers; ++id) {
      const int request = static_cast<int>(random.between(20, 700 / kOthers));
      const bool iterates = random.chance(0.3);
      const Nanos kernel = from_seconds(2e-6 * std::pow(1e5, random.uniform()));  // to 200 ms
      GpuProgram program = iterates ? emulator::serving_program({eager_run()}, random.uniform())
                                    : greedy_program(kernel, std::min<Nanos>(kernel, Micros(4)));
      if (!iterates) longest = std::max(longest, kernel);
      if (!iterates && random.chance(0.5)) {
        program.work = Millis(random.between(1, 500));
        program.pause = Millis(random.between(1, 500));
      }
      gpu.add(client(id, request, iterates), program);
      const Nanos when = Millis(random.between(100, 3500));
      if (random.chance(0.3))
        gpu.at(when, [&gpu, id] { gpu.kill(id); });
      else if (random.chance(0.3))
        gpu.at(when, [&gpu, id] { gpu.stop(id); });
      else
        gpu.at(when,
               [&gpu, id, request, iterates] { gpu.change(client(id, request / 2, iterates)); });
    }
    gpu.run(kLong);
    double all = 0;
    for (ClientId id = 1; id < 2 + kOthers; ++id) all += gpu.used(id);
    if (!device().shared) {
      EXPECT_LE(all, seconds(kLong)) << "no more than the device has";
    }
    const auto& used = gpu.used_by_second(1);
    for (size_t s = 1; s < used.size(); ++s)
      EXPECT_GE(used[s], 0.9 * kRequest / 1000 - 0.01 - seconds(longest)) << s;
  }
}

TEST_P(OnBothKinds, NoClientGetsMoreThanItsLimit) {
  GpuSimulation gpu("shares", device());
  gpu.add(client(1, 200, false, 300), greedy_program(Micros(50)));
  gpu.run(Seconds(3));
  EXPECT_NEAR(gpu.used(1), 0.3 * 3, 0.03);
  gpu.add(client(2, 200, false, 500), greedy_program(Micros(50)));
  gpu.run(Seconds(6));
  EXPECT_NEAR(gpu.used(1), 0.3 * 6, 0.06);
  EXPECT_NEAR(gpu.used(2), 0.5 * 3, 0.08);
}

TEST_P(OnBothKinds, AResizeCountsAtOnce) {
  GpuSimulation gpu("shares", device());
  gpu.add(client(1, 200), greedy_program(Micros(50)));
  gpu.add(client(2, 500), greedy_program(Micros(50)));
  gpu.at(Seconds(2), [&] { gpu.change(client(1, 500)); });
  gpu.run(Seconds(4));
  const auto& used = gpu.used_by_second(1);
  EXPECT_NEAR(used[1], 2 / 7.0, 0.02);
  EXPECT_NEAR(used[2], 0.5, 0.02);
}

// --- clients that go silent ----------------------------------------------------------------------

TEST_P(OnBothKinds, AStoppedOrKilledClientLeavesItsShareToTheOthers) {
  for (const bool killed : {false, true}) {
    GpuSimulation gpu("shares", device());
    gpu.add(client(1, 200), greedy_program(Micros(50)));
    gpu.add(client(2, 800), greedy_program(Micros(50)));
    gpu.at(Seconds(1), [&] { killed ? gpu.kill(2) : gpu.stop(2); });
    gpu.run(Seconds(1));
    const double before = gpu.used(1);
    gpu.run(Seconds(1) + (killed ? Millis(5) : Millis(30)));
    const double soon = gpu.used(1);
    gpu.run(Seconds(3));
    EXPECT_GT(soon, before) << killed;
    EXPECT_GE(gpu.used(1) - before, 1.9) << killed;
  }
}

// A client is not owed what it did not want.
TEST_P(OnBothKinds, IdleTimeIsNotSaved) {
  GpuSimulation gpu("shares", device());
  GpuProgram rests = greedy_program(Micros(50));
  rests.work = Seconds(1);
  rests.pause = Seconds(1);
  gpu.add(client(1, 500), rests);
  gpu.add(client(2, 500), greedy_program(Micros(50)));
  gpu.run(Seconds(4));
  const auto& used = gpu.used_by_second(1);
  EXPECT_NEAR(used[2], 0.5, 0.04);
  EXPECT_GE(gpu.used_by_second(2)[1], 0.97);
}

// --- clients that misreport ----------------------------------------------------------------------

struct Misreport {
  const char* what;
  Nanos kernel;
  double cost, host;
  bool has_slo;
  double longest = 1;
};
class AMisreportingClient : public testing::TestWithParam<Misreport> {};
INSTANTIATE_TEST_SUITE_P(, AMisreportingClient,
                         testing::Values(Misreport{"half", Micros(50), 0.5, 1, false},
                                         Misreport{"a_tenth", Micros(50), 0.1, 1, false},
                                         Misreport{"a_slow_host", Micros(50), 1, 100, false},
                                         Misreport{"both", Micros(50), 0.1, 100, false},
                                         Misreport{"half_of_20_ms", Millis(20), 0.5, 1, false},
                                         Misreport{"a_tenth_of_200_ms", Millis(200), 0.1, 1, false},
                                         Misreport{"units_without_end", Micros(50), 0.1, 1, false,
                                                   1e6},
                                         Misreport{"with_an_objective", Micros(50), 0.1, 1, true}),
                         [](const auto& info) { return std::string(info.param.what); });

TEST_P(AMisreportingClient, StaysWithinATenthOfItsShare) {
  const Misreport& report = GetParam();
  for (const bool side_by_side : {false, true}) {
    if (side_by_side && sanitized()) return;
    for (const Nanos honest : {Nanos(Micros(50)), Nanos(Millis(20))}) {
      GpuSimulation gpu("shares", DeviceSpec::h200(side_by_side));
      gpu.add(client(1, 400), greedy_program(honest));
      GpuProgram program = greedy_program(report.kernel);
      program.reported_cost = report.cost;
      program.reported_host = report.host;
      program.reported_longest = report.longest;
      gpu.add(client(2, 600, report.has_slo), program);
      gpu.run(Seconds(3));
      const double ours = gpu.used(1), theirs = gpu.used(2);
      gpu.run(Seconds(8));
      EXPECT_LE(gpu.used(2) - theirs, 1.1 * 0.6 * 5) << side_by_side << " " << seconds(honest);
      EXPECT_GE(gpu.used(1) - ours, 0.9 * 0.4 * 5) << side_by_side << " " << seconds(honest);
    }
  }
}

// Whatever holds are for: iterations that follow each other without a pause, and need more than the
// client's request.
TEST_P(OnBothKinds, AHoldTakesNothingThatOthersAreOwed) {
  for (const int request : {200, 400, 700}) {
    GpuSimulation gpu("shares", device());
    gpu.add(client(1, 1000 - request), greedy_program(Micros(50)));
    gpu.add(client(2, request, true), emulator::loop_program({training_step()}));
    gpu.run(Seconds(3));
    const double all = gpu.used(1) + gpu.used(2);
    EXPECT_GE(gpu.used(1), 0.95 * (1000 - request) / 1000 * all) << request;
    EXPECT_GE(gpu.used(2), 0.95 * request / 1000 * all) << request;
  }
}

// It would have the device to itself for as long as its iteration lasts.
TEST_P(OnBothKinds, AnIterationThatNeverEndsTakesNothingFromOthers) {
  GpuSimulation gpu("shares", device());
  gpu.add(client(1, 600), greedy_program(Micros(50)));
  GpuProgram endless = emulator::loop_program({training_step()});
  endless.never_ends_iterations = true;
  gpu.add(client(2, 400, true), endless);
  gpu.run(Seconds(6));
  EXPECT_GE(gpu.used(1), 0.95 * 0.6 * (gpu.used(1) + gpu.used(2)));
}

// --- admission -----------------------------------------------------------------------------------

TEST(Shares, RequestsOnTheSameSmsAddUpToTheWholeAtMost) {
  SharesArbiter sliced({});
  const Time now{};
  EXPECT_TRUE(sliced.admit(client(1, 700), now).ok());
  EXPECT_TRUE(sliced.admit(client(2, 300), now).ok());
  const auto refused = sliced.admit(client(3, 1), now);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("quota.request: 1 ‰ of client 3"));
  sliced.remove(2, now);
  EXPECT_TRUE(sliced.admit(client(3, 300), now).ok());
  EXPECT_TRUE(sliced.admit(client(3, 200), now).ok());

  SharesArbiter lanes({.side_by_side = true});
  const auto on = [](ClientId id, int begin, int sm, int request) {
    return ShareClient{
        .id = id, .sm = {sm}, .quota = {{request}, {1000}}, .position = {{begin}, {}}};
  };
  EXPECT_TRUE(lanes.admit(on(1, 0, 500, 600), now).ok());
  EXPECT_TRUE(lanes.admit(on(2, 500, 500, 900), now).ok());
  EXPECT_TRUE(lanes.admit(on(3, 0, 500, 400), now).ok());
  EXPECT_FALSE(lanes.admit(on(4, 400, 200, 101), now).ok());
  EXPECT_FALSE(lanes.admit(on(4, 0, 1000, 1), now).ok());
}

// Lanes of their own: no client waits for the other's turn.
TEST(Shares, LanesDoNotTakeTurns) {
  GpuSimulation gpu("shares", DeviceSpec::h200(true));
  for (int i = 0; i < 2; ++i)
    gpu.add({.id = ClientId(i + 1),
             .sm = {500},
             .quota = {kWhole, kWhole},
             .position = {{500 * i}, {}}},
            greedy_program(Micros(50)));
  gpu.run(Seconds(2));
  for (ClientId id : {1, 2}) EXPECT_GE(gpu.used(id), 1.7) << id;
}

}  // namespace
}  // namespace sluice::policy
