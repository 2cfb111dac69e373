#include "policy/plan/plan_tiresias.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "policy/plan/deal_pack.h"

namespace sluice::policy {
namespace {

// The memory's key of each job.
constexpr std::string_view kQueue = "tiresias ";

int devices_asked_for(const Contender& job) {
  return job.job().spec().max_workers > 0 ? job.most() : job.least();
}

// What is remembered of a job: the device-seconds that are forgotten of what it had, and since when
// it has been in the second queue; 0: it is in the first one.
struct Queued {
  double forgotten = 0, since = 0;

  bool second() const { return since > 0; }
};

Queued queue_of(const Contender& job, Queued q, double now, const TiresiasSettings& settings) {
  const double served = job.attained - q.forgotten;
  const double ran = served / devices_asked_for(job);
  if (!q.second()) {
    if (served >= seconds(settings.threshold)) q.since = now;
  } else if (settings.promote > 0 && seconds(job.waited) >= settings.promote * ran) {
    q = {.forgotten = job.attained};
  }
  return q;
}

// Returns the jobs in the order in which they are served.
std::vector<size_t> in_queues(Table& table, const TiresiasSettings& settings) {
  auto& numbers = table.memory->numbers;
  std::map<std::string, std::vector<double>> remembered;
  std::vector<std::pair<double, size_t>> order;  // the first queue's have 0
  for (size_t j = 0; j < table.jobs.size(); ++j) {
    const std::string key = std::string(kQueue) + to_string(table.jobs[j].job().name());
    const auto at = numbers.find(key);
    const bool known = at != numbers.end() && at->second.size() == 2;
    const Queued before = known ? Queued{at->second[0], at->second[1]} : Queued{};
    const double now = seconds(table.now.time_since_epoch());
    const Queued q = queue_of(table.jobs[j], before, now, settings);
    remembered[key] = {q.forgotten, q.since};
    order.emplace_back(q.since, j);
  }
  std::erase_if(numbers, [](const auto& entry) { return entry.first.starts_with(kQueue); });
  numbers.merge(remembered);
  std::ranges::sort(order);
  std::vector<size_t> jobs;
  for (const auto& [since, j] : order) jobs.push_back(j);
  return jobs;
}

}  // namespace

std::vector<int> tiresias(Table& table, const TiresiasSettings& settings) {
  std::vector<int> workers(table.jobs.size());
  int free = table.all_devices();
  for (const size_t j : in_queues(table, settings)) {
    const int wanted = devices_asked_for(table.jobs[j]);
    if (wanted > free || wanted < table.jobs[j].least()) continue;
    workers[j] = wanted;
    free -= wanted;
  }
  return workers;
}

std::span<const Setting<TiresiasSettings>> TiresiasSettings::settings() {
  static constexpr Setting<TiresiasSettings> kAll[] = {
      {"round", &TiresiasSettings::round, 1, 86'400, "between two deals of all devices"},
      {"threshold", &TiresiasSettings::threshold, 1, 36e6,
       "of device time, from which on a job is in the second queue"},
      {"promote", &TiresiasSettings::promote, 0, 1000,
       "a job that has waited so many times as long as it ran begins anew; 0: never"},
  };
  return kAll;
}

std::vector<Action> plan_tiresias(Input& input) {
  const auto settings = settings_among<TiresiasSettings>(input.settings);
  return deal(input, "tiresias", {.round = settings.round}, [](Table& table) {
    return pack(table, tiresias(table, settings_among<TiresiasSettings>(table.settings)));
  });
}

}  // namespace sluice::policy
