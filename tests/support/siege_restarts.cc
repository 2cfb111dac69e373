#include <algorithm>
#include <set>
#include <thread>

#include "tests/support/siege.h"

namespace sluice::bench {
namespace {

constexpr int kInstances = 2;

std::set<pid_t> instances_of(PlatformBed& bed) {
  std::set<pid_t> pids;
  const auto all = bed.get("/v1/instances");
  if (all.ok())
    for (const nlohmann::json& i : *all) pids.insert(i.value("pid", 0));
  return pids;
}

}  // namespace

Result<Restarted> restart_under_load(const Restarts& with) {
  PlatformBed bed(with.platform);
  SLUICE_TRY(bed.ready());
  SLUICE_TRY(bed.deploy("f", kInstances));
  const std::set<pid_t> before = instances_of(bed);
  Restarted result;
  std::vector<Asked> asked;
  std::atomic<bool> stop = false;
  std::thread load([&] {
    asked = play({.port = bed.gateway_port(),
                  .paths = {"/v2/models/f/infer"},
                  .ask = questions(16, with.seed),
                  .plan = {{std::chrono::hours(24), with.rate}},
                  .seed = with.seed,
                  .stop = &stop});
  });
  Result<void> outcome;
  const SteadyClock clock;
  while (outcome.ok() && std::ssize(result.seconds) < with.restarts) {
    const Time begin = clock.now();
    outcome = bed.restart();
    result.seconds.push_back(seconds(clock.now() - begin));
    ::usleep(500'000);  // requests between two restarts
  }
  stop = true;
  load.join();
  SLUICE_TRY(outcome);
  result.tally = tally(asked);
  std::ranges::for_each(instances_of(bed),
                        [&](pid_t p) { result.replaced += !before.contains(p); });
  result.leftovers = static_cast<int>(bed.end().size());
  return result;
}

}  // namespace sluice::bench
