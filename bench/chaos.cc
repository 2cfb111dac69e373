// chaos: random scenarios with faults under random bundles, in virtual time. Counts the seeds in
// which everything held. One that did not is printed, shrunk.
//
//   bench_chaos [--seeds N] [--from SEED] [--json FILE]
#include "sim/chaos.h"

#include <cstdio>
#include <map>
#include <string>

#include "base/log.h"
#include "bench/report.h"

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::bench;
  Report report("chaos", argc, argv);
  spdlog::set_level(spdlog::level::off);
  const int seeds = int_argument(argc, argv, "--seeds", 10'000);
  const int from = int_argument(argc, argv, "--from", 1);
  std::map<std::string, int> played;  // by bundle
  int held = 0;
  for (int seed = from; seed < from + seeds; ++seed) {
    const sim::Scenario s = sim::random_scenario(static_cast<uint64_t>(seed));
    ++played[s.policies.front()];
    const auto fault = sim::broken(s);
    if (!fault) ++held;
    if (fault)
      std::printf("seed %d: %s\n%s", seed, fault->c_str(), sim::summary_of(sim::shrunk(s)).c_str());
  }
  std::string bundles = "Played:";
  for (const auto& [name, count] : played) bundles += " " + name + " " + std::to_string(count);
  report.note(bundles + ".");
  report.add(
      Row("seeds with all invariants held", held, "seeds").beside("played", seeds).at_least(seeds));
  return report.finish();
}
