// The cost of a decision, by the number of clients (arbiters/busy_device.h has the load).
// `bench/run arbiter` compares that of 64 clients with its goal.
#include <benchmark/benchmark.h>

#include <string>

#include "arbiters/busy_device.h"

namespace sluice::policy {
namespace {

void step(benchmark::State& state, std::string_view name) {
  BusyDevice device(name, static_cast<int>(state.range(0)));
  for (auto _ : state) device.step();
  // A step that decides nothing would be quick: one in ten grants at least.
  SLUICE_CHECK(device.grants() * 10 >= static_cast<int64_t>(state.iterations()),
               "no work was done");
  state.counters["grants/step"] =
      static_cast<double>(device.grants()) / static_cast<double>(state.iterations());
}

const bool kRegistered = [] {
  for (const std::string& name : arbiter_names(DeviceKind::kCpu)) {
    const auto run = [name](benchmark::State& state) { step(state, name); };
    benchmark::RegisterBenchmark(("step/" + name).c_str(), run)->Arg(4)->Arg(16)->Arg(64);
  }
  return true;
}();

}  // namespace
}  // namespace sluice::policy
