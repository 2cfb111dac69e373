#include "policy/plan/plan_elasticflow.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <tuple>

#include "policy/plan/deal_pack.h"

namespace sluice::policy {
namespace {

// Returns 0 if the job may not have so many.
int level_from(const Contender& job, int workers) {
  if (workers > job.most()) return 0;
  const int level = static_cast<int>(std::bit_ceil(static_cast<unsigned>(workers)));
  return level <= job.most() ? level : 0;
}

// Returns leastDevices itself if no power of two lies between the job's bounds; 0: it cannot have
// these either.
int first_level(const Contender& job) {
  if (const int level = level_from(job, job.least()); level > 0) return level;
  return job.least() <= job.most() ? job.least() : 0;
}

class Levels {
 public:
  explicit Levels(const Table& table) : table_(table), free_(table.all_devices()) {
    for (const int devices : table.devices) largest_node_ = std::max(largest_node_, devices);
  }

  std::vector<int> run() {
    workers_.assign(table_.jobs.size(), 0);
    for (const bool admitted : {true, false})
      for (size_t j = 0; j < workers_.size(); ++j)
        if (table_.jobs[j].now.empty() != admitted) admit(j);
    for (size_t j = 0; j < workers_.size(); ++j) offer(j);
    while (!offers_.empty()) {
      const auto [gain, fewer, earlier, next] = offers_.top();
      offers_.pop();
      const auto j = static_cast<size_t>(-earlier);
      if (next - workers_[j] > free_) continue;  // never again: devices only become fewer
      free_ -= next - workers_[j];
      workers_[j] = next;
      offer(j);
    }
    return workers_;
  }

 private:
  // Gain, less the workers, less the job's number, and the level.
  using Offer = std::tuple<double, int, int64_t, int>;

  void admit(size_t j) {
    const int first = first_level(table_.jobs[j]);
    if (first > free_) return;
    workers_[j] = first;
    free_ -= first;
  }

  void offer(size_t j) {
    if (workers_[j] == 0) return;
    const Contender& job = table_.jobs[j];
    const int next = level_from(job, workers_[j] + 1);
    const double gain = next > 0 ? gain_of(job, workers_[j], next) : 0;
    if (gain > 0) offers_.emplace(gain, -workers_[j], -static_cast<int64_t>(j), next);
  }

  // By each device that the next level has more, in throughputs of a device of the first level.
  double gain_of(const Contender& job, int workers, int next) const {
    constexpr double kLast = 1e-9;
    const double first = throughput(job, first_level(job)) / first_level(job);
    const double more = (throughput(job, next) - throughput(job, workers)) / (next - workers);
    if (first <= 0 || more <= 0) return 0;
    return job.job().state().step ? more / first : kLast;
  }

  double throughput(const Contender& job, int workers) const {
    return job.throughput(workers, workers > largest_node_ ? 2 : 1);
  }

  const Table& table_;
  int free_;
  int largest_node_ = 0;
  std::vector<int> workers_;
  std::priority_queue<Offer> offers_;
};

}  // namespace

std::vector<int> elasticflow(const Table& table) {
  return Levels(table).run();
}

std::span<const Setting<ElasticFlowSettings>> ElasticFlowSettings::settings() {
  static constexpr Setting<ElasticFlowSettings> kAll[] = {
      {"round", &ElasticFlowSettings::round, 1, 86'400, "between two deals of all devices"},
  };
  return kAll;
}

std::vector<Action> plan_elasticflow(Input& input) {
  const auto settings = settings_among<ElasticFlowSettings>(input.settings);
  return deal(input, "elasticflow", {.round = settings.round},
              [](Table& table) { return pack(table, elasticflow(table)); });
}

}  // namespace sluice::policy
