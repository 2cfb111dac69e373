#include "policy/plan/plan_fapes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "policy/plan/fapes_filter.h"
#include "policy/plan/fapes_job_plan.h"
#include "policy/plan/fapes_memory.h"
#include "policy/plan/fapes_order.h"

namespace sluice::policy {
namespace {

constexpr size_t kHorizon = 48;  // rounds (reading A6)

class FapesPlanner {
 public:
  FapesPlanner(Table& table, const FapesSettings& settings)
      : table_(table),
        settings_(settings),
        rules_{settings.round, settings.kappa, settings.units, settings.restart},
        round_(seconds(settings.round)),
        now_(seconds(table.now.time_since_epoch())),
        memory_(table, settings.round),
        board_(table.devices, kHorizon) {
    for (const int d : table.devices) largest_ = std::max(largest_, d);
  }

  Dealt run() {
    for (size_t j = 0; j < table_.jobs.size(); ++j) recall(j);
    keep_running();
    join_cohort();
    set_prices();
    for (const size_t j : in_order()) plan(j);
    memory_.remember(records_, board_);
    Dealt dealt;
    for (const FapesRecord& r : records_)
      dealt.push_back(r.schedule.empty() ? Placed{} : r.schedule[0]);
    return dealt;
  }

 private:
  const Contender& job(size_t j) const { return table_.jobs[j]; }
  const JobView& state(size_t j) const { return job(j).job().state(); }
  bool runs(size_t j) const { return !job(j).now.empty(); }

  void recall(size_t j) {
    sizes_.push_back(fapes_sizes(job(j), settings_.granule, largest_));
    records_.push_back(memory_.of(j));
    FapesRecord& r = records_.back();
    if (runs(j) && r.planned && r.measured == state(j).step.has_value()) count(j, r);
    r.at = now_;
    r.done = static_cast<double>(state(j).done);
  }

  // Adds the time since the last round to the past of the job's plan. Samples are measured, what
  // each brings is predicted.
  void count(size_t j, FapesRecord& r) const {
    const double since = now_ - r.at;
    if (since <= 0) return;
    double goodput = job(j).goodput(job(j).now);
    const double throughput = throughput_of(j, job(j).now);
    if (state(j).samples > 0 && throughput > 0)
      goodput *= (static_cast<double>(state(j).done) - r.done) / since / throughput;
    const double all = r.past_seconds + since;
    r.past_goodput = (r.past_goodput * r.past_seconds + goodput * since) / all;
    r.past_seconds = all;
  }

  double throughput_of(size_t j, const Placed& placed) const {
    return job(j).throughput(workers_in(placed), static_cast<int>(placed.size()));
  }

  // Puts the plans of running jobs on the board. Those that cannot stay there, and all jobs that
  // wait, are the cohort. A job that can never run here is in neither. A job that outlives its plan
  // comes before the plans that rest on its end.
  void keep_running() {
    std::vector<size_t> late, in_time;
    for (size_t j = 0; j < records_.size(); ++j) {
      FapesRecord& r = records_[j];
      if (sizes_[j].sizes.empty()) {
        r.schedule.clear();
      } else if (!runs(j) || is_suboptimal(j)) {
        cohort_.push_back(j);
      } else if (r.schedule.empty()) {
        r.schedule = {job(j).now};
        late.push_back(j);
      } else {
        in_time.push_back(j);
      }
    }
    for (const auto* jobs : {&late, &in_time})
      for (const size_t j : *jobs) {
        const bool stays = board_.fits(records_[j].schedule);
        if (stays) board_.add(records_[j].schedule);
        (stays ? kept_ : cohort_).push_back(j);
      }
  }

  bool is_suboptimal(size_t j) const {
    const FapesRecord& r = records_[j];
    if (!r.planned || r.lacks_node || r.measured != state(j).step.has_value()) return true;
    const double before = r.noise, noise = state(j).noise;
    return before > 0 && noise > 0 && (noise > 2 * before || before > 2 * noise);
  }

  void join_cohort() {
    std::vector<FilterJob> jobs;
    for (const size_t j : cohort_) jobs.push_back(as_filtered(j, 0));
    for (const size_t j : kept_) {
      update_achievement(j);
      jobs.push_back(as_filtered(j, workers_in(records_[j].schedule[0])));
    }
    const size_t waiting = cohort_.size();
    for (const size_t i : fapes_filter(jobs, board_.free(0), granule())) {
      const size_t j = kept_[i - waiting];
      board_.remove(records_[j].schedule);
      cohort_.push_back(j);
    }
  }

  int granule() const { return std::clamp(settings_.granule, 1, std::max(largest_, 1)); }

  FilterJob as_filtered(size_t j, int devices) const {
    return {.devices = devices,
            .achievement = records_[j].achievement,
            .ends_soon = devices > 0 && ends_soon(j),
            .waited = job(j).waited,
            .least = job(j).least(),
            .most = std::max(sizes_[j].best, 1),
            .expected = [this, j](int size) { return expected(j, size); }};
  }

  // Without the time of a restart. Else jobs would be planned anew in each round, for the hundredth
  // that their last restart has cost them.
  double expected(size_t j, int size) const {
    const double useful = std::max(round_ - seconds(settings_.restart), 0.0);
    const double goodput = job(j).goodput(size, size > largest_ ? 2 : 1);
    return achievement(goodput, useful, 0, round_ - useful, sizes_[j].goodput);
  }

  void update_achievement(size_t j) {
    FapesRecord& r = records_[j];
    double coming = 0;
    for (const Placed& placed : r.schedule) coming += job(j).goodput(placed);
    const auto rounds = static_cast<double>(r.schedule.size());
    r.achievement = achievement(r.past_goodput, r.past_seconds, coming / rounds, rounds * round_,
                                sizes_[j].goodput);
  }

  // By the end of the next round, with the devices of the plan and then its last ones.
  bool ends_soon(size_t j) const {
    const Schedule& s = records_[j].schedule;
    const double samples = throughput_of(j, s[0]) + throughput_of(j, s.size() > 1 ? s[1] : s[0]);
    return samples * round_ >= job(j).left();
  }

  void set_prices() {
    std::vector<const Contender*> jobs;
    std::vector<const FapesSizes*> sizes;
    for (const size_t j : cohort_) {
      jobs.push_back(&job(j));
      sizes.push_back(&sizes_[j]);
    }
    const FapesBounds bounds = fapes_bounds(jobs, sizes);
    board_.set_bounds(bounds.least, bounds.most);
  }

  std::vector<size_t> in_order() const {
    std::vector<FapesClaim> claims;
    for (const size_t j : cohort_)
      claims.push_back({.priority = job(j).job().view->spec.priority,
                        .is_new = !runs(j) && job(j).attained <= 0,
                        .waited = seconds(job(j).waited),
                        .age = seconds(job(j).age),
                        .achievement = records_[j].achievement});
    std::vector<size_t> order;
    for (const size_t i : fapes_order(claims, pop_up())) order.push_back(cohort_[i]);
    return order;
  }

  // The loop decides at intervals, so that a round may last a little less.
  double pop_up() const { return (settings_.pop_up - 0.01) * round_; }

  void plan(size_t j) {
    FapesRecord& r = records_[j];
    const bool may_wait = !runs(j) && seconds(job(j).waited) < pop_up();
    auto schedule = fapes_job_plan(board_, job(j), sizes_[j], rules_, may_wait);
    if (!schedule && !may_wait) schedule = fapes_job_plan(board_, job(j), sizes_[j], rules_, true);
    r.planned = true;
    r.schedule = schedule.value_or(Schedule{});
    // The length of a job that was never measured is unknown.
    const auto begins =
        std::ranges::find_if(r.schedule, [](const Placed& p) { return !p.empty(); });
    if (!state(j).step && begins != r.schedule.end())
      r.schedule.erase(begins + 1, r.schedule.end());
    r.noise = state(j).noise;
    r.measured = state(j).step.has_value();
    r.past_goodput = r.past_seconds = 0;
    board_.add(r.schedule);
  }

  Table& table_;
  const FapesSettings& settings_;
  const FapesRules rules_;
  const double round_, now_;  // seconds
  FapesMemory memory_;
  Board board_;
  int largest_ = 0;                   // node
  std::vector<FapesSizes> sizes_;     // by job
  std::vector<FapesRecord> records_;  // by job
  std::vector<size_t> kept_, cohort_;
};

}  // namespace

Dealt fapes(Table& table, const FapesSettings& settings) {
  return FapesPlanner(table, settings).run();
}

std::span<const Setting<FapesSettings>> FapesSettings::settings() {
  static constexpr Setting<FapesSettings> kAll[] = {
      {"round", &FapesSettings::round, 1, 86'400, "between two decisions"},
      {"granule", &FapesSettings::granule, 1, 64,
       "devices that a job has at least and is given at once, if a node has so many"},
      {"kappa", &FapesSettings::kappa, 0, 1000, "a price's weight against completion time"},
      {"units", &FapesSettings::units, 1, 1000, "of work, that a plan counts in"},
      {"pop_up", &FapesSettings::pop_up, 0, 1000, "rounds that a job waits before it comes first"},
      {"restart", &FapesSettings::restart, 0, 3600, "that a job loses when its devices change"},
      {"at_events", &FapesSettings::at_events, 0, 1,
       "also decides when jobs come or end, or devices change"},
  };
  return kAll;
}

std::vector<Action> plan_fapes(Input& input) {
  const auto settings = settings_among<FapesSettings>(input.settings);
  const DealRules rules{.round = settings.round, .at_events = settings.at_events};
  return deal(input, "fapes", rules, [](Table& table) {
    return fapes(table, settings_among<FapesSettings>(table.settings));
  });
}

}  // namespace sluice::policy
