#include "policy/plan/plan_optimus.h"

#include <queue>
#include <tuple>

#include "policy/plan/deal_pack.h"

namespace sluice::policy {
namespace {

// Seconds that one more worker saves; 0 if it may have no other.
double saved(const Contender& job, int workers) {
  if (workers >= job.most()) return 0;
  const double now = job.goodput(workers, 1), then = job.goodput(workers + 1, 1);
  return now > 0 && then > now ? job.left() / now - job.left() / then : 0;
}

}  // namespace

std::vector<int> optimus(const Table& table) {
  std::vector<int> workers(table.jobs.size());
  int free = table.all_devices();
  for (size_t j = 0; j < workers.size(); ++j) {
    if (table.jobs[j].least() > free) continue;
    workers[j] = table.jobs[j].least();
    free -= workers[j];
  }
  // The largest saving; of equal ones the earlier job.
  using Offer = std::tuple<double, int64_t>;
  std::priority_queue<Offer> offers;
  const auto offer = [&](size_t j) {
    if (workers[j] == 0) return;
    const double seconds = saved(table.jobs[j], workers[j]);
    if (seconds > 0) offers.emplace(seconds, -static_cast<int64_t>(j));
  };
  for (size_t j = 0; j < workers.size(); ++j) offer(j);
  for (; free > 0 && !offers.empty(); --free) {
    const auto j = static_cast<size_t>(-std::get<1>(offers.top()));
    offers.pop();
    ++workers[j];
    offer(j);
  }
  return workers;
}

std::span<const Setting<OptimusSettings>> OptimusSettings::settings() {
  static constexpr Setting<OptimusSettings> kAll[] = {
      {"round", &OptimusSettings::round, 1, 86'400, "between two deals of all devices"},
  };
  return kAll;
}

std::vector<Action> plan_optimus(Input& input) {
  Nanos round = OptimusSettings().round;
  if (!input.settings.empty() && input.settings[0].is<OptimusSettings>())
    round = input.settings[0].as<OptimusSettings>().round;
  return deal(input, "optimus", {.round = round},
              [](Table& table) { return pack(table, optimus(table)); });
}

}  // namespace sluice::policy
