// shares: what several programs get of one GPU, in virtual time: the arbiter, the daemon's hosted
// device and meter, the hook's gate and meter, and a device model in one process, with programs
// recorded on an H200. Beside the driver alone and exclusive turns (`planned`), whose programs
// report exactly, at no cost.
//
// The device model's assumptions are not all measured (docs/design/gpu-shares.md), so latencies and
// quota errors are the worst of several runs: as assumed, and with half and double of how long an
// idle program keeps its slice, of a switch, and of the wait for a neighbour's block.
//
//   bench_shares [--seconds 20] [--json FILE]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>

#include "arbiters/busy_device.h"
#include "base/check.h"
#include "bench/report.h"
#include "tests/support/gpu_simulation.h"

namespace sluice::bench {
namespace {

using emulator::DeviceSpec;
using emulator::GpuProgram;
using emulator::HostRun;
using emulator::recorded;
using policy::ClientId;
using policy::GpuSimulation;
using policy::ShareClient;

GpuSimulation::Hosts hosts_of(std::string_view arbiter) {
  return arbiter == "shares" ? GpuSimulation::Hosts::kHooked : GpuSimulation::Hosts::kExact;
}

// Of recorded programs, as an iteration of each takes on a device of its own.
struct Programs {
  std::vector<HostRun> eager = recorded("launches", "resnet50");
  std::vector<HostRun> graph = recorded("launches", "resnet50-graph", Micros(150));
  // Kernels of batch 4, as those that eight instances ran on the H200.
  std::vector<HostRun> batch = recorded("launches", "resnet50", Nanos(0), 1.9);
  GpuProgram training =
      emulator::loop_program({emulator::synthetic_training_step(recorded("launches", "bert")[0])});
  GpuProgram recorded_training = emulator::loop_program(recorded("training", "bert-training"));
};

double quantile(std::vector<Nanos> all, double part) {
  if (all.empty()) return 0;
  std::ranges::sort(all);
  return seconds(
      all[std::min(all.size() - 1, static_cast<size_t>(part * static_cast<double>(all.size())))]);
}

ShareClient client(ClientId id, int request, bool has_slo, int from = 0) {
  return {.id = id,
          .sm = kWhole,
          .quota = {{request}, kWhole},
          .position = {{}, {from}},
          .has_slo = has_slo};
}

// The model's assumptions, and each of them halved and doubled.
std::vector<DeviceSpec> assumptions(bool side_by_side) {
  std::vector<DeviceSpec> all = {DeviceSpec::h200(side_by_side)};
  for (const int by : {1, 4}) {
    DeviceSpec spec = all[0];
    if (side_by_side) {
      spec.block_wait = spec.block_wait * by / 2;
      all.push_back(spec);
      continue;
    }
    spec.linger_ns = spec.linger_ns * by / 2;
    all.push_back(spec);
    spec = all[0];
    spec.switch_ns = spec.switch_ns * by / 2;
    all.push_back(spec);
  }
  return all;
}

// --- inference beside training -------------------------------------------------------------------

struct Pair {
  double p50, p95, p99, training, requests;
  bool grows;
};
Pair run_pair(std::string_view arbiter, const DeviceSpec& device, int request,
              const GpuProgram& serving, const GpuProgram* training, Nanos time) {
  GpuSimulation gpu(arbiter, device, 1, hosts_of(arbiter));
  gpu.add(client(1, request, true), serving);
  if (training != nullptr) gpu.add(client(2, 1000 - request, false, request), *training);
  gpu.run(time);
  const auto& latencies = gpu.latencies(1);
  return {
      .p50 = quantile(latencies, 0.5),
      .p95 = quantile(latencies, 0.95),
      .p99 = quantile(latencies, 0.99),
      .training = training != nullptr ? static_cast<double>(gpu.iterations(2)) / seconds(time) : 0,
      .requests = static_cast<double>(latencies.size()),
      .grows = gpu.queue_grows(1)};
}

double steps_alone(const DeviceSpec& device, const GpuProgram& training, Nanos time) {
  GpuSimulation gpu("", device);
  gpu.add(client(2, 1000, false), training);
  gpu.run(time);
  return static_cast<double>(gpu.iterations(2)) / seconds(time);
}

struct Goals {  // 0: none
  double p50 = 0, p95 = 0, p99 = 0;
  double of_driver = 0, of_alone = 0;  // training, at least
};

void measure_pair(Report& report, const std::string& name, bool side_by_side, int request,
                  const GpuProgram& serving, const GpuProgram& training, const Goals& goals,
                  Nanos time) {
  Pair worst{};
  double of_driver = HUGE_VAL, of_alone = HUGE_VAL;
  std::optional<Pair> driver, turns;
  for (const DeviceSpec& device : assumptions(side_by_side)) {
    const Pair alone = run_pair("", device, request, serving, nullptr, time);
    if (alone.requests < 100) report.fail(name + ": fewer than 100 requests");
    const auto beside_alone = [&](Pair pair) {
      pair.p50 /= alone.p50;
      pair.p95 /= alone.p95;
      pair.p99 /= alone.p99;
      return pair;
    };
    const Pair ours = beside_alone(run_pair("shares", device, request, serving, &training, time));
    const Pair driven = beside_alone(run_pair("", device, request, serving, &training, time));
    const double trained = steps_alone(device, training, time);
    if (!driver) {
      driver = driven;
      driver->training /= trained;
      turns = beside_alone(run_pair("planned", device, request, serving, &training, time));
      turns->training /= trained;
    }
    worst.p50 = std::max(worst.p50, ours.p50);
    worst.p95 = std::max(worst.p95, ours.p95);
    worst.p99 = std::max(worst.p99, ours.p99);
    of_driver = std::min(of_driver, ours.training / driven.training);
    of_alone = std::min(of_alone, ours.training / trained);
  }
  const auto latency = [&](const char* which, double value, double driven, double goal) {
    Row row(name + ": " + which, value, "x alone");
    row.beside("driver", driven);
    if (goal > 0) row.at_most(goal);
    report.add(row);
  };
  latency("p50", worst.p50, driver->p50, goals.p50);
  latency("p95", worst.p95, driver->p95, goals.p95);
  latency("p99", worst.p99, driver->p99, goals.p99);
  report.add(
      Row(name + ": p50, exclusive turns", turns->p50, "x alone").beside("driver", driver->p50));
  Row training_row(name + ": training", of_alone, "of alone");
  training_row.beside("driver", driver->training);
  if (goals.of_alone > 0) training_row.at_least(goals.of_alone);
  report.add(training_row);
  Row relative(name + ": training", of_driver, "of the driver's own");
  relative.beside("exclusive turns", turns->training / driver->training);
  if (goals.of_driver > 0) relative.at_least(goals.of_driver);
  report.add(relative);
}

// --- eight instances -----------------------------------------------------------------------------

double eight(std::string_view arbiter, bool side_by_side, Share sm,
             const std::vector<HostRun>& runs, Nanos time) {
  GpuSimulation gpu(arbiter, DeviceSpec::h200(side_by_side), 1, hosts_of(arbiter));
  int64_t all = 0;
  for (int i = 0; i < 8; ++i) {
    ShareClient c = client(static_cast<ClientId>(i + 1), sm == kWhole ? 120 : 1000, false,
                           sm == kWhole ? 120 * i : 0);
    c.sm = sm;
    if (sm != kWhole) c.position.sm_begin = {sm.permille * i};
    gpu.add(c, emulator::loop_program(runs));
  }
  gpu.run(time);
  for (ClientId id = 1; id <= 8; ++id) all += gpu.iterations(id);
  return static_cast<double>(all) / seconds(time);
}

void measure_eight(Report& report, const Programs& programs, Nanos time) {
  const struct {
    const char* name;
    bool side_by_side;
    Share sm;
  } cases[] = {{"time-sliced", false, kWhole},
               {"MPS", true, kWhole},
               {"MPS, 12 % of SMs each", true, {120}}};
  for (const auto& c : cases) {
    const double driver = eight("", c.side_by_side, c.sm, programs.batch, time);
    if (driver < 100) report.fail("eight instances: the driver alone runs less than 100 batches/s");
    const std::string name = std::string("eight eager instances, ") + c.name;
    report.add(Row(name, eight("shares", c.side_by_side, c.sm, programs.batch, time), "batches/s")
                   .beside("driver", driver)
                   .ratio_at_least(0.97));
    report.add(Row(name + ", exclusive turns",
                   eight("planned", c.side_by_side, c.sm, programs.batch, time), "batches/s")
                   .beside("driver", driver));
  }
}

// --- quotas --------------------------------------------------------------------------------------

struct Greedy {
  int request;
  Nanos kernel;
  double reported_cost = 1, reported_host = 1;
};

// Runs endless programs; the first second is not counted.
struct Quotas {
  Quotas(std::string_view arbiter, const DeviceSpec& device, const std::vector<Greedy>& all,
         Nanos time) {
    GpuSimulation gpu(arbiter, device, 1, hosts_of(arbiter));
    int from = 0;
    for (const Greedy& g : all) {
      GpuProgram program =
          emulator::greedy_program(g.kernel, std::min<Nanos>(Micros(4), g.kernel * 2 / 3));
      program.reported_cost = g.reported_cost;
      program.reported_host = g.reported_host;
      gpu.add(client(static_cast<ClientId>(used.size() + 1), g.request, false, from), program);
      from += g.request;
      used.push_back(0);
    }
    gpu.run(Seconds(1) + time);
    for (size_t i = 0; i < all.size(); ++i) {
      const auto& by_second = gpu.used_by_second(static_cast<ClientId>(i + 1));
      for (size_t s = 1; s < by_second.size(); ++s) {
        used[i] += by_second[s] / seconds(time);
        if (i == 0) least = std::min(least, by_second[s]);
        if (i == 0) window_used.push_back(by_second[s]);
      }
      sum += used[i];
    }
    for (size_t i = 0; i < all.size(); ++i) {
      const double share = all[i].request / 1000.0;
      of_device = std::max(of_device, std::abs(used[i] - share));
      of_used = std::max(of_used, std::abs(used[i] / sum - share));
    }
  }

  std::vector<double> used, window_used;
  double sum = 0, of_device = 0, of_used = 0;
  double least = HUGE_VAL;  // the first client's, in a second
};

void measure_quotas(Report& report, Nanos time) {
  const Nanos k = Micros(50);
  const struct {
    const char* name;
    std::vector<Greedy> clients;
  } cases[] = {
      {"20, 30, 50 %", {{200, k}, {300, k}, {500, k}}},
      {"5, 95 %", {{50, k}, {950, k}}},
      {"eight of 5 to 20 %",
       {{50, k}, {50, k}, {100, k}, {100, k}, {150, k}, {150, k}, {200, k}, {200, k}}},
  };
  for (const bool side_by_side : {false, true}) {
    for (const auto& c : cases) {
      double of_used = 0, of_device = 0;
      for (const DeviceSpec& device : assumptions(side_by_side)) {
        const Quotas ours("shares", device, c.clients, time);
        of_used = std::max(of_used, ours.of_used);
        of_device = std::max(of_device, ours.of_device);
      }
      const Quotas driver("", DeviceSpec::h200(side_by_side), c.clients, time);
      const std::string name =
          std::string("quota error, ") + c.name + (side_by_side ? ", MPS" : ", time-sliced");
      report.add(Row(name + ": of what is used", 100 * of_used, "%")
                     .beside("driver", 100 * driver.of_used)
                     .at_most(0.5));
      report.add(Row(name + ": of the device", 100 * of_device, "%")
                     .beside("driver", 100 * driver.of_device)
                     .at_most(1.5));
    }
  }
}

void measure_neighbours(Report& report, Nanos time) {
  const struct {
    const char* name;
    Nanos kernel;
  } cases[] = {{"2 us", Micros(2)}, {"20 ms", Millis(20)}, {"200 ms", Millis(200)}};
  for (const auto& c : cases) {
    const std::vector<Greedy> both = {{400, Micros(50)}, {600, c.kernel}};
    const Quotas ours("shares", DeviceSpec::h200(false), both, time);
    const Quotas driver("", DeviceSpec::h200(false), both, time);
    const std::string name = std::string("40 % beside kernels of ") + c.name;
    report.add(Row(name + ": used", 100 * ours.used[0], "%")
                   .beside("driver", 100 * driver.used[0])
                   .at_least(36));
    report.add(Row(name + ": in the worst second", 100 * ours.least, "%")
                   .beside("driver", 100 * driver.least)
                   .at_least(33));
  }
}

// --- clients that misreport ----------------------------------------------------------------------

void measure_misreporting(Report& report, Nanos time) {
  const struct {
    const char* name;
    Greedy misreporting;
    Nanos honest;
  } cases[] = {
      {"half of its costs", {600, Micros(50), 0.5}, Micros(50)},
      {"a tenth of its costs", {600, Micros(50), 0.1}, Micros(50)},
      {"a tenth, and a slow host", {600, Micros(50), 0.1, 100}, Micros(50)},
      {"a slow host", {600, Micros(50), 1, 100}, Micros(50)},
      {"a tenth, beside kernels of 200 ms", {600, Micros(50), 0.1}, Millis(200)},
      {"a tenth of kernels of 20 ms", {600, Millis(20), 0.1}, Millis(20)},
      {"a tenth of kernels of 200 ms", {600, Millis(200), 0.1}, Micros(50)},
  };
  for (const auto& c : cases) {
    const DeviceSpec device = DeviceSpec::h200(false);
    const Quotas ours("shares", device, {{400, c.honest}, c.misreporting}, time);
    const Quotas driver("", device, {{400, c.honest}, c.misreporting}, time);
    const std::string name = std::string("reports ") + c.name;
    report.add(Row(name + ": uses", ours.used[1] / 0.6, "x its share")
                   .beside("driver", driver.used[1] / 0.6)
                   .at_most(1.1));
    report.add(Row(name + ": the honest client", ours.used[0] / 0.4, "x its share")
                   .beside("driver", driver.used[0] / 0.4)
                   .at_least(0.9));
  }
}

// --- a decision ----------------------------------------------------------------------------------

constexpr int kClients = 64, kDecisions = 20'000;

double us_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began)
      .count();
}

// Of the arbiter of exclusive permits, as bench_arbiter has it.
double planned_decision_us() {
  policy::BusyDevice device("planned", kClients);
  std::vector<double> times;
  for (int d = 0; d < kDecisions; ++d) {
    const auto began = std::chrono::steady_clock::now();
    device.step();
    times.push_back(us_since(began));
  }
  return summarise(std::move(times)).p50;
}

// All are greedy: each reports its work before the step.
void measure_decision(Report& report) {
  const auto arbiter = *policy::make_arbiter("shares", {});
  Time now{std::chrono::hours(1)};
  std::vector<policy::Progress> progress(kClients);
  for (int i = 0; i < kClients; ++i) {
    SLUICE_CHECK(arbiter->admit(client(static_cast<ClientId>(i), 15, i % 2 == 0), now).ok(),
                 "admitted");
    arbiter->want(static_cast<ClientId>(i), true, now);
  }
  std::vector<double> times;
  int64_t launched = 0;
  for (int d = 0; d < kDecisions; ++d) {
    now += Micros(500);
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < kClients; ++i)
      arbiter->progress(static_cast<ClientId>(i), progress[static_cast<size_t>(i)], now);
    const policy::Permits permits = arbiter->step(now);
    times.push_back(us_since(began));
    for (const policy::Budget& budget : permits.budgets) {
      policy::Progress& p = progress[budget.client];
      const Nanos more =
          budget.held ? Nanos(0)
                      : std::clamp<Nanos>(budget.allowed - p.submitted, Nanos(0), Micros(500));
      p.finished = p.submitted;
      p.submitted += more;
      p.host += more / 10;
      p.waits_for_budget = more == Nanos(0);
      launched += more.count();
    }
  }
  if (launched < 1'000'000'000) report.fail("decisions: clients launched nothing");
  const Samples all = summarise(std::move(times));
  report.add(Row("one decision, 64 clients: p50", all.p50, "us")
                 .beside("planned", planned_decision_us())
                 .of(all)
                 .at_most(2));
}

int measure(int argc, char** argv) {
  Report report("shares", argc, argv);
  const Nanos time = Seconds(int_argument(argc, argv, "--seconds", 20));
  const Programs programs;
  const GpuProgram eager = emulator::serving_program(programs.eager, 0.4);
  const GpuProgram graph = emulator::serving_program(programs.graph, 0.4);
  const Nanos longer = 3 * time;  // for the last hundredth of the requests
  measure_pair(report, "eager inference, 40:60, time-sliced", false, 400, eager, programs.training,
               {.p50 = 1.10, .p95 = 1.10, .p99 = 1.07, .of_driver = 0.94}, longer);
  measure_pair(report, "eager inference, 40:60, MPS", true, 400, eager, programs.training,
               {.p50 = 1.10, .p95 = 1.10, .p99 = 1.07, .of_alone = 0.80}, longer);
  measure_pair(report, "graphs, 70:30, MPS", true, 700, graph, programs.training,
               {.p95 = 1.28, .of_alone = 0.55}, longer);
  measure_pair(report, "eager inference beside recorded training, time-sliced", false, 400, eager,
               programs.recorded_training, {}, longer);
  measure_eight(report, programs, time);
  measure_quotas(report, time);
  measure_neighbours(report, std::max(time, Nanos(Seconds(10))));
  measure_misreporting(report, std::max(time, Nanos(Seconds(10))));
  measure_decision(report);
  return report.finish();
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  return sluice::bench::measure(argc, argv);
}
