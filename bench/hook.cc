// hook: the cost that the library in the driver's place adds to a launch, within budget, all in
// (checkpoints included), on one thread and on four. The references are the two usual ways: the
// driver's function looked up by name under a mutex at every launch, and a counter that all threads
// share. Each adds to the same launch, which does nothing; the bare launch is measured beside them
// and subtracted.
#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "bench/hooked_driver.h"
#include "bench/report.h"
#include "bench/sliced_device.h"
#include "bench/timing.h"

namespace sluice::bench {
namespace {

constexpr int kRounds = 200;  // timings of each kind, interleaved, per thread

// One way to launch, and its cost: ns per launch, of each thread and round.
struct Way {
  std::function<void(int times)> run;
  std::vector<double> ns = {};
};

template <class Once>
std::function<void(int)> repeat(Once once) {
  return [once](int times) {
    for (int i = 0; i < times; ++i) once();
  };
}

// Pins to the nth of the cores that this process may use: threads that are woken together are
// otherwise put on one.
void keep_to_core(int nth) {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  SLUICE_CHECK(sched_getaffinity(getpid(), sizeof all, &all) == 0, "sched_getaffinity");
  int left = nth % CPU_COUNT(&all), core = 0;
  while (!CPU_ISSET(core, &all) || left-- > 0) ++core;
  CPU_SET(core, &one);
  SLUICE_CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
}

// Runs the ways in turn, in reversed order every other round, `batch` launches per timing, on so
// many threads at once. Returns whether every launch reached the driver.
bool measure(int threads, int batch, const std::vector<Way*>& ways, unsigned long (*launched)()) {
  std::barrier together(threads);
  std::mutex results;
  bool all = true;
  const auto body = [&](int nth) {
    keep_to_core(nth);
    std::vector<std::vector<double>> mine(ways.size());
    const unsigned long before = launched();
    for (int round = 0; round < kRounds; ++round)
      for (size_t nth_way = 0; nth_way < ways.size(); ++nth_way) {
        const size_t i = round % 2 == 0 ? nth_way : ways.size() - 1 - nth_way;
        together.arrive_and_wait();
        mine[i].push_back(ns_each(1, [&] { ways[i]->run(batch); }) / batch);
      }
    const std::lock_guard lock(results);
    all &= launched() - before == ways.size() * kRounds * static_cast<size_t>(batch);
    for (size_t i = 0; i < ways.size(); ++i)
      ways[i]->ns.insert(ways[i]->ns.end(), mine[i].begin(), mine[i].end());
  };
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back(body, i);
  for (std::thread& t : running) t.join();
  return all;
}

// Returns a way's cost beyond the bare launch of the same round.
Samples added(const Way& way, const Way& bare) {
  std::vector<double> difference;
  for (size_t i = 0; i < way.ns.size(); ++i) difference.push_back(way.ns[i] - bare.ns[i]);
  return summarise(difference);
}

void added_per_launch(Report& report, int threads, const HookedDriver& cuda) {
  constexpr int kBatch = 50'000;  // long enough for threads that begin one together to overlap
  const auto direct = function<Launch>(cuda.driver, "cuLaunchKernel");
  const auto hooked = function<Launch>(cuda.hook, "cuLaunchKernel");
  std::mutex mutex;
  std::atomic<long> tokens{1l << 60};
  Way bare{repeat([&] { launch_with(direct); })};
  Way ours{repeat([&] { launch_with(hooked); })};
  Way by_name{repeat([&] {
    const std::lock_guard lock(mutex);
    launch_with(reinterpret_cast<Launch>(dlsym(cuda.driver, "cuLaunchKernel")));
  })};
  Way counted{repeat([&] {
    long before = tokens.load();
    while (before < 0 || !tokens.compare_exchange_weak(before, before - 1)) {
    }
    launch_with(direct);
  })};
  if (!measure(threads, kBatch, {&bare, &ours, &by_name, &counted}, cuda.launched))
    report.fail("a launch did not reach the driver");

  const Samples o = added(ours, bare), n = added(by_name, bare), c = added(counted, bare);
  const std::string on = ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  report.add(Row("added per launch, p50" + on, o.p50, "ns")
                 .beside("dlsym under a mutex", n.p50)
                 .of(o)
                 .at_most(10));
  report.add(Row("added per launch, p50" + on, o.p50, "ns")
                 .beside("a shared counter", c.p50)
                 .of(o)
                 .at_most(10));
  report.add(Row("added per launch, p99" + on, o.p99, "ns").of(o));
}

// A program that only launches, with launches and events about as long as an H200's (3.7 and 0.8
// us). A timing is long enough to include the hook's occasional work.
void launch_bound(Report& report, int threads, const HookedDriver& cuda) {
  using LaunchEx = decltype(&cuLaunchKernelEx);
  const auto direct = function<LaunchEx>(cuda.driver, "cuLaunchKernelEx");
  const auto hooked = function<LaunchEx>(cuda.hook, "cuLaunchKernelEx");
  constexpr int kBatch = 8000;
  const CUlaunchConfig config{
      .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
  Way bare{repeat([&] { direct(&config, nullptr, nullptr, nullptr); })};
  Way ours{repeat([&] { hooked(&config, nullptr, nullptr, nullptr); })};
  if (!measure(threads, kBatch, {&bare, &ours}, cuda.launched))
    report.fail("a launch did not reach the driver");
  std::vector<double> lost;
  for (size_t i = 0; i < ours.ns.size(); ++i) lost.push_back(100 * (1 - bare.ns[i] / ours.ns[i]));
  const Samples l = summarise(lost);
  const double us = summarise(bare.ns).p50 / 1000;
  char name[80];
  snprintf(name, sizeof name, "throughput lost, launches of %.1f us, p50, %d thread%s", us, threads,
           threads == 1 ? "" : "s");
  Row row(name, l.p50, "%");
  row.of(l);
  report.add(threads == 1 ? row.at_most(1) : row);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("hook", argc, argv);
  SlicedDevice device(1, SlicedDevice::Clients::kMeter);
  device.serve();
  const HookedDriver cuda;
  for (const int threads : {1, 4}) added_per_launch(report, threads, cuda);
  for (const int threads : {1, 4}) launch_bound(report, threads, cuda);
  if (device.processes() != 1) report.fail("the hook did not attach");
  return report.finish();
}
