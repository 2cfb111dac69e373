#include "policy/plan/deal.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "policy/explain.h"

namespace sluice::policy {
namespace {

// Keys of the memory: the time of the last round with what it saw, each job's share of it, and what
// each job has had.
constexpr std::string_view kRound = "deal round", kDealt = "deal dealt ", kJob = "deal job ";

std::string dealt_key(const FunctionName& job, std::string_view node) {
  return std::string(kDealt) + to_string(job) + " " + std::string(node);
}

// What a job had had at `since`, from when on it has so many workers: device-seconds, changes and
// the most workers at once. `since` is 0 until its first worker.
struct Had {
  double attained = 0, changes = 0, since = 0, workers = 0, most = 0;

  static Had of(const std::vector<double>& n) {
    if (n.size() != 5) return {};
    return {n[0], n[1], n[2], n[3], n[4]};
  }
  std::vector<double> numbers() const { return {attained, changes, since, workers, most}; }
};

class Deal {
 public:
  Deal(Input& input, std::string_view planner, const DealRules& rules)
      : input_(input),
        planner_(planner),
        rules_(rules),
        jobs_(jobs_of(input)),
        sites_(sites_of(input, jobs_)) {}

  std::vector<Action> run(Dealt (*decide)(Table&)) {
    open_sites();
    make_table();
    Dealt dealt = kept();
    if (is_due(dealt)) {
      for (size_t j = 0; j < table_.jobs.size(); ++j) table_.jobs[j].now = dealt[j];
      dealt = within_devices(decide(table_));
      remember(dealt);
      anew_ = rules_.restart_all;
    }
    return actions(dealt);
  }

 private:
  // Whole devices alone are dealt: without inference, foreign programs or other plans' workers.
  void open_sites() {
    nodes_ = 0;
    for (const Site& s : sites_) nodes_ = std::max(nodes_, s.node + 1);
    table_.names.resize(nodes_);
    table_.devices.assign(nodes_, 0);
    open_.resize(sites_.size());
    for (size_t d = 0; d < sites_.size(); ++d) {
      const Site& s = sites_[d];
      table_.names[s.node] = s.device->node;
      const bool needed = std::ranges::binary_search(input_.reclaimed, s.device->id);
      open_[d] = s.closed.empty() && !s.used && s.others == 0 && !needed;
      table_.devices[s.node] += open_[d];
    }
  }

  void make_table() {
    table_.now = input_.snapshot.now;
    table_.memory = &input_.memory;
    table_.random = &input_.random;
    table_.settings = input_.settings;
    const int all = table_.all_devices();
    for (const Job& job : jobs_) {
      if (!job.wants_workers()) continue;
      Contender c(job, std::min(job.most(), all));
      count(c);
      table_.jobs.push_back(std::move(c));
    }
    std::erase_if(input_.memory.numbers, [&](const auto& entry) {
      const std::string& key = entry.first;
      if (!key.starts_with(kJob)) return false;
      return !input_.index.function(function_name(key.substr(kJob.size())));
    });
  }

  // Brings what the job has had up to date.
  void count(Contender& c) {
    const double now = input_.now();
    std::vector<double>& numbers =
        input_.memory.numbers[std::string(kJob) + to_string(c.job().name())];
    Had had = Had::of(numbers);
    const auto workers = static_cast<double>(c.job().workers.size());
    if (workers != had.workers) {
      had.attained += std::max(now - had.since, 0.0) * had.workers;
      had.changes += had.workers > 0;
      had.since = now;
      had.workers = workers;
      had.most = std::max(had.most, workers);
    }
    numbers = had.numbers();  // which change with the workers alone: the loop's journal has them
    const double submitted = seconds(c.job().state().submitted.time_since_epoch());
    c.age = from_seconds(std::max(now - submitted, 0.0));
    c.attained = had.attained + std::max(now - had.since, 0.0) * had.workers;
    c.changes = static_cast<int>(had.changes);
    c.most_had = static_cast<int>(had.most);
    if (workers == 0) c.waited = from_seconds(std::max(now - std::max(submitted, had.since), 0.0));
  }

  Dealt kept() const {
    std::map<std::string_view, size_t> nodes;
    for (size_t n = 0; n < nodes_; ++n) nodes.emplace(table_.names[n], n);
    const auto& numbers = input_.memory.numbers;
    Dealt dealt;
    for (const Contender& c : table_.jobs) {
      Placed placed;
      const std::string prefix = dealt_key(c.job().name(), "");
      for (auto at = numbers.lower_bound(prefix);
           at != numbers.end() && at->first.starts_with(prefix); ++at) {
        const auto node = nodes.find(std::string_view(at->first).substr(prefix.size()));
        if (node != nodes.end() && at->second.size() == 1)
          placed.emplace_back(node->second, static_cast<int>(at->second[0]));
      }
      dealt.push_back(std::move(placed));
    }
    return within_devices(std::move(dealt));
  }

  // Jobs come by priority, so the last ones lose. One that has fewer than its least has none.
  Dealt within_devices(Dealt dealt) const {
    dealt.resize(table_.jobs.size());
    std::vector<int> left = table_.devices;
    for (size_t j = 0; j < dealt.size(); ++j) {
      Placed& placed = dealt[j];
      std::ranges::sort(placed);
      for (auto& [node, workers] : placed)
        workers = node < nodes_ ? std::clamp(workers, 0, left[node]) : 0;
      std::erase_if(placed, [](const auto& p) { return p.second == 0; });
      if (workers_in(placed) < table_.jobs[j].least()) placed.clear();
      for (const auto& [node, workers] : placed) left[node] -= workers;
    }
    return dealt;
  }

  // What a round saw: which jobs wanted workers, which had some, and the devices.
  std::vector<double> seen(const Dealt& dealt) const {
    size_t jobs = 0;
    for (size_t j = 0; j < dealt.size(); ++j) {
      const std::string entry =
          to_string(table_.jobs[j].job().name()) + (dealt[j].empty() ? "-" : "+");
      jobs = jobs * 31 + std::hash<std::string>()(entry);
    }
    return {input_.now(), static_cast<double>(jobs % (1ull << 52)),
            static_cast<double>(table_.all_devices())};
  }

  bool is_due(const Dealt& dealt) const {
    if (table_.jobs.empty()) return false;
    const auto last = input_.memory.numbers.find(std::string(kRound));
    if (last == input_.memory.numbers.end() || last->second.size() != 3) return true;
    const std::vector<double> now = seen(dealt);
    const double since = now[0] - last->second[0];
    if (since < 0 || since >= seconds(rules_.round) - 1e-3) return true;
    return rules_.at_events && (now[1] != last->second[1] || now[2] != last->second[2]);
  }

  void remember(const Dealt& dealt) {
    auto& numbers = input_.memory.numbers;
    std::erase_if(numbers, [](const auto& entry) { return entry.first.starts_with(kDealt); });
    for (size_t j = 0; j < dealt.size(); ++j)
      for (const auto& [node, workers] : dealt[j])
        numbers[dealt_key(table_.jobs[j].job().name(), table_.names[node])] = {
            static_cast<double>(workers)};
    numbers[std::string(kRound)] = seen(dealt);
  }

  std::vector<Action> actions(const Dealt& dealt) {
    std::vector<Action> out;
    stop_unwanted(jobs_, input_.snapshot, out);
    std::vector<std::vector<const Worker*>> stay(dealt.size());
    for (size_t j = 0; j < dealt.size(); ++j) stay[j] = stop(j, dealt[j], out);
    for (size_t j = 0; j < dealt.size(); ++j) start(j, dealt[j], stay[j], out);
    return out;
  }

  // Returns the workers that stay.
  std::vector<const Worker*> stop(size_t j, const Placed& placed, std::vector<Action>& out) {
    const Job& job = table_.jobs[j].job();
    std::map<size_t, int> left(placed.begin(), placed.end());
    std::vector<const Worker*> stay;
    for (const Worker& w : job.workers) {
      const Site& site = sites_[w.device];
      if (!anew_ && open_[w.device] && left[site.node] > 0) {
        --left[site.node];
        stay.push_back(&w);
      } else if (site.device->reachable) {
        out.push_back(stop_worker(job, w, leaves(placed, site)));
      }
    }
    return stay;
  }

  void start(size_t j, const Placed& placed, const std::vector<const Worker*>& stay,
             std::vector<Action>& out) {
    const Job& job = table_.jobs[j].job();
    std::map<size_t, int> missing(placed.begin(), placed.end());
    for (const Worker* w : stay) --missing[sites_[w->device].node];
    if (placed.empty()) {
      out.push_back({job.name(), Unmet{}, waits()});
      return;
    }
    std::vector<size_t> free;
    int wanted = 0;
    for (const auto& [node, count] : missing) wanted += std::max(count, 0);
    for (size_t d = 0; d < sites_.size() && wanted > 0; ++d) {
      const Site& s = sites_[d];
      if (!open_[d] || !s.taken.empty() || missing[s.node] <= 0) continue;
      if (s.device->memory < job.view->spec.memory) continue;
      --missing[s.node];
      --wanted;
      free.push_back(d);
    }
    if (static_cast<int>(stay.size() + free.size()) < job.least()) {
      out.push_back({job.name(), Unmet{}, waits_for_leaving(wanted)});
      return;
    }
    static const Instance kStarting;
    for (const size_t d : free) {
      out.push_back(
          start_worker(job, sites_[d], kNone, {kWhole, kWhole}, starts(placed, sites_[d])));
      sites_[d].taken.push_back({kNone, kWhole, &kStarting});
    }
  }

  std::string dealt_text(const Placed& placed) const {
    return std::string(planner_) + ": " + counted(workers_in(placed), "whole device") + " on " +
           counted(static_cast<int>(placed.size()), "node");
  }
  Reason starts(const Placed& placed, const Site& site) const {
    return {"job-dealt",
            dealt_text(placed) + ". Started on " + site.device->id + ".",
            {{"workers", workers_in(placed)}}};
  }
  Reason leaves(const Placed& placed, const Site& site) const {
    const std::string how = anew_ ? ". All begin anew: stopped on " : ", without ";
    return {"job-dealt",
            dealt_text(placed) + how + site.device->id + ".",
            {{"workers", workers_in(placed)}}};
  }
  Reason waits() const {
    return {"job-waits", std::string(planner_) + ": no device in this round.", {}};
  }
  Reason waits_for_leaving(int missing) const {
    return {
        "job-waits",
        std::string(planner_) + ": waits for " + counted(missing, "device") + " that others leave.",
        nonzero({{"missing", missing}})};
  }

  Input& input_;
  const std::string_view planner_;
  const DealRules& rules_;
  const std::vector<Job> jobs_;
  std::vector<Site> sites_;
  size_t nodes_ = 0;
  std::vector<bool> open_;  // by site
  bool anew_ = false;       // every worker stops
  Table table_;
};

}  // namespace

int workers_in(const Placed& placed) {
  int sum = 0;
  for (const auto& [node, workers] : placed) sum += workers;
  return sum;
}

int Table::all_devices() const {
  return std::accumulate(devices.begin(), devices.end(), 0);
}

double Contender::left() const {
  const JobView& state = job_->state();
  if (state.samples <= 0) return job_->spec().epochs;
  return static_cast<double>(std::max<int64_t>(state.samples - state.done, 1));
}

const BatchChoice& Contender::choice(int workers, int nodes) const {
  static const BatchChoice kNone;
  if (workers < 1) return kNone;
  const size_t at = 2 * static_cast<size_t>(workers) + (nodes > 1);
  if (choices_.size() <= at) choices_.resize(at + 1, BatchChoice{-1, 0, 0});
  BatchChoice& c = choices_[at];
  if (c.batch < 0) c = batch_of(*job_, {.count = workers, .nodes = nodes > 1 ? 2 : 1});
  return c;
}

std::vector<Action> deal(Input& input, std::string_view planner, const DealRules& rules,
                         Dealt (*decide)(Table& table)) {
  return Deal(input, planner, rules).run(decide);
}

}  // namespace sluice::policy
