#include "policy/plan/plan_pollux.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "policy/plan/pollux_search.h"

namespace sluice::policy {
namespace {

// A generation takes time in proportion to jobs × nodes × population. So there are generations × 64
// ÷ nodes beyond 64 nodes, and the population is smaller beyond so many cells.
constexpr int kManyNodes = 64, kLeastGenerations = 5;
constexpr size_t kMostCells = size_t{1} << 23, kLeastPopulation = 8;
// Allocations that are remembered, which the loop's journal holds.
constexpr size_t kRemembered = 20;

// Keys of the memory: the number of nodes, and of each job how often it was dealt other devices,
// followed by its rows of the remembered allocations.
constexpr std::string_view kNodes = "pollux nodes", kRows = "pollux ";

// A cell of a remembered allocation as one number, which is exact.
double code_of(size_t allocation, size_t node, uint16_t workers) {
  return std::ldexp(static_cast<double>(allocation), 40) +
         std::ldexp(static_cast<double>(node), 16) + workers;
}
struct Cell {
  size_t allocation, node;
  uint16_t workers;
};
Cell cell_of(double code) {
  const auto c = static_cast<uint64_t>(std::clamp(code, 0.0, 0x1p52));
  return {c >> 40, (c >> 16) & 0xFFFFFF, static_cast<uint16_t>(c)};
}

class Pollux {
 public:
  Pollux(Table& table, const PolluxSettings& settings)
      : table_(table),
        settings_(settings),
        nodes_(table.devices.size()),
        order_(table.jobs.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::stable_sort(order_, {}, [&](size_t j) {
      const Contender& c = table_.jobs[j];
      return std::tuple(-c.job().view->spec.priority, c.attained);
    });
    read_memory();
    for (size_t r = 0; r < order_.size(); ++r) add_job(r);
    problem_.devices = table.devices;
    for (int& devices : problem_.devices) devices = std::min(devices, 0xFFFF);
  }

  Dealt run() {
    const size_t cells = nodes_ * order_.size();
    const size_t affordable = std::max(kMostCells / cells, kLeastPopulation);
    const int population = std::min(settings_.population, static_cast<int>(affordable));
    const int fewer =
        settings_.generations * kManyNodes / std::max(static_cast<int>(nodes_), kManyNodes);
    const int least = std::min(settings_.generations, kLeastGenerations);
    const int generations = std::max(fewer, least);
    PolluxSearch search(problem_, *table_.random);
    auto found = search.evolve(std::move(remembered_), population, generations);
    found.all.resize(std::min(found.all.size(), kRemembered));
    remember(found.all);
    Dealt dealt(order_.size());
    for (size_t r = 0; r < order_.size(); ++r)
      for (size_t n = 0; n < nodes_; ++n)
        if (const int workers = found.all[0][r * nodes_ + n]; workers > 0)
          dealt[order_[r]].emplace_back(n, workers);
    return dealt;
  }

 private:
  const Contender& contender(size_t row) const { return table_.jobs[order_[row]]; }
  std::string key_of(size_t row) const {
    return std::string(kRows) + to_string(contender(row).job().name());
  }

  void read_memory() {
    const auto& numbers = table_.memory->numbers;
    const auto nodes = numbers.find(std::string(kNodes));
    const bool same_nodes = nodes != numbers.end() && nodes->second.size() == 1 &&
                            nodes->second[0] == static_cast<double>(nodes_);
    for (size_t r = 0; r < order_.size(); ++r) {
      const auto at = numbers.find(key_of(r));
      const bool known = at != numbers.end() && !at->second.empty();
      deals_.push_back(known ? at->second[0] : 0);
      if (!known || !same_nodes) continue;
      for (size_t i = 1; i < at->second.size(); ++i) set(r, cell_of(at->second[i]));
    }
  }
  void set(size_t row, const Cell& cell) {
    if (cell.allocation >= kRemembered || cell.node >= nodes_) return;
    if (remembered_.size() <= cell.allocation)
      remembered_.resize(cell.allocation + 1, Allocation(nodes_ * order_.size()));
    remembered_[cell.allocation][row * nodes_ + cell.node] = cell.workers;
  }

  void remember(const std::vector<Allocation>& found) {
    auto& numbers = table_.memory->numbers;
    std::erase_if(numbers, [](const auto& entry) { return entry.first.starts_with(kRows); });
    numbers[std::string(kNodes)] = {static_cast<double>(nodes_)};
    for (size_t r = 0; r < order_.size(); ++r) {
      const auto begin = static_cast<ptrdiff_t>(r * nodes_);
      const auto end = begin + static_cast<ptrdiff_t>(nodes_);
      const Allocation& best = found[0];
      const bool some = std::any_of(best.begin() + begin, best.begin() + end, std::identity());
      const bool same =
          std::equal(best.begin() + begin, best.begin() + end, problem_.now.begin() + begin);
      const bool restarts = some && (!same || settings_.restart_all);
      std::vector<double>& out = numbers[key_of(r)] = {deals_[r] + restarts};
      for (size_t i = 0; i < found.size(); ++i)
        for (size_t n = 0; n < nodes_; ++n)
          if (const uint16_t workers = found[i][r * nodes_ + n]; workers > 0)
            out.push_back(code_of(i, n, workers));
    }
  }

  void add_job(size_t row) {
    const Contender& c = contender(row);
    const double all = std::max(table_.all_devices(), 1), nodes = static_cast<double>(nodes_);
    const double delay = seconds(settings_.restart), age = seconds(c.age);
    const double restarts = std::max(deals_[row] - 1, 0.0);
    // A job's age counts as a second at least, so that one that has just come is worth a device.
    const double changed = std::max(age - restarts * delay, 1.0) / (std::max(age, 1.0) + delay);
    problem_.jobs.push_back({.job = &c,
                             .least = c.least(),
                             .most = std::min(c.most(), std::max(2 * c.most_had, c.least())),
                             .speedup = nodes / all / fair_goodput(c),
                             .same = settings_.restart_all ? changed : 1,
                             .changed = changed});
    problem_.now.resize(problem_.now.size() + nodes_);
    for (const auto& [node, workers] : c.now)
      problem_.now[row * nodes_ + node] = static_cast<uint16_t>(workers);
  }

  // Of devices ÷ jobs. If the job's batch does not allow so many, of fewer; of more, if it does not
  // allow these.
  double fair_goodput(const Contender& c) const {
    const int all = table_.all_devices(), jobs = static_cast<int>(order_.size());
    const int fair = std::max(1, (all + jobs - 1) / jobs);
    for (int workers = fair; workers > 0; --workers)
      if (const double goodput = c.goodput(workers, 1); goodput > 0) return goodput;
    for (int workers = fair + 1; workers <= c.most(); ++workers)
      if (const double goodput = c.goodput(workers, 1); goodput > 0) return goodput;
    return 1;
  }

  Table& table_;
  const PolluxSettings& settings_;
  const size_t nodes_;
  std::vector<size_t> order_;  // the table's job of each row
  std::vector<double> deals_;  // by row: how often it was dealt other devices
  std::vector<Allocation> remembered_;
  PolluxProblem problem_;
};

}  // namespace

Dealt pollux(Table& table, const PolluxSettings& settings) {
  if (table.jobs.empty() || table.all_devices() == 0) return Dealt(table.jobs.size());
  return Pollux(table, settings).run();
}

std::span<const Setting<PolluxSettings>> PolluxSettings::settings() {
  static constexpr Setting<PolluxSettings> kAll[] = {
      {"round", &PolluxSettings::round, 1, 86'400, "between two deals of all devices"},
      {"generations", &PolluxSettings::generations, 1, 10'000,
       "of a search on up to 64 nodes; beyond, × 64 ÷ nodes"},
      {"population", &PolluxSettings::population, 2, 10'000, "deals that compete"},
      {"restart", &PolluxSettings::restart, 0, 3600, "that a job loses when its devices change"},
      {"restart_all", &PolluxSettings::restart_all, 0, 1,
       "in each round every job stops, and begins anew"},
  };
  return kAll;
}

std::vector<Action> plan_pollux(Input& input) {
  const auto settings = settings_among<PolluxSettings>(input.settings);
  const DealRules rules{.round = settings.round, .restart_all = settings.restart_all};
  return deal(input, "pollux", rules, [](Table& table) {
    return pollux(table, settings_among<PolluxSettings>(table.settings));
  });
}

}  // namespace sluice::policy
