#include "policy/plan/pollux_search.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"

namespace sluice::policy {
namespace {

// The artifact's chances: that a job's row is reset, that it loses nodes, and each of its nodes.
constexpr double kReset = 0.1, kLose = 0.1, kLoseNode = 0.1;
constexpr double kWithout = 1e-3;  // added to each speed-up

uint64_t hash_of(const Allocation& a) {
  uint64_t hash = 1469598103934665603ull;  // FNV-1a, of cells
  for (const uint16_t cell : a) hash = (hash ^ cell) * 1099511628211ull;
  return hash;
}

}  // namespace

PolluxSearch::PolluxSearch(const PolluxProblem& problem, Random& random)
    : problem_(problem), random_(random), nodes_(problem.devices.size()) {}

PolluxSearch::Population PolluxSearch::evolve(std::vector<Allocation> begin, int size,
                                              int generations) {
  SLUICE_CHECK(size > 0, "a population");
  const auto most = static_cast<size_t>(size);
  living_.clear();
  hashes_.clear();
  add(problem_.now);
  for (Allocation& a : begin) add(std::move(a));
  for (int tries = 0; living_.size() < most && tries < size; ++tries) {
    Allocation changed = living_[random_.below(living_.size())].allocation;
    mutate(changed);
    add(std::move(changed));
  }
  keep_the_fittest(most);
  Population out;
  out.best.push_back(living_.front().fitness);
  for (int g = 0; g < generations; ++g) {
    const size_t parents = living_.size();
    for (size_t children = 0; children < most; children += 2) bear(parents);
    keep_the_fittest(most);
    out.best.push_back(living_.front().fitness);
  }
  for (Individual& i : living_) out.all.push_back(std::move(i.allocation));
  return out;
}

double PolluxSearch::fitness(const Allocation& a) const {
  double sum = 0;
  for (size_t j = 0; j < problem_.jobs.size(); ++j) {
    const PolluxJob& job = problem_.jobs[j];
    const auto cells = row(a, j), now = row(problem_.now, j);
    int workers = 0, nodes = 0;
    bool same = true;
    for (size_t n = 0; n < nodes_; ++n) {
      workers += cells[n];
      nodes += cells[n] > 0;
      same &= cells[n] == now[n];
    }
    const double goodput = workers > 0 ? job.job->goodput(workers, nodes) : 0;
    sum += 1 / (goodput * job.speedup * (same ? job.same : job.changed) + kWithout);
  }
  return sum > 0 ? static_cast<double>(problem_.jobs.size()) / sum : 0;
}

// ---- operators ---------------------------------------------------------------------------------

void PolluxSearch::mutate(Allocation& a) {
  for (size_t j = 0; j < problem_.jobs.size(); ++j) {
    const auto cells = row(a, j);
    if (random_.chance(kReset)) std::ranges::copy(row(problem_.now, j), cells.begin());
    if (!random_.chance(kLose)) continue;
    for (uint16_t& cell : cells)
      if (cell > 0 && random_.chance(kLoseNode)) cell = 0;
  }
  increase(a);
}

// On each node with a free device, about one job of all and one of those that are there get more,
// up to all of its devices. repair() cuts what is too much.
void PolluxSearch::increase(Allocation& a) {
  left_ = problem_.devices;
  holders_.assign(nodes_, 0);
  for (size_t j = 0; j < problem_.jobs.size(); ++j) {
    const auto cells = row(a, j);
    for (size_t n = 0; n < nodes_; ++n) {
      left_[n] -= cells[n];
      holders_[n] += cells[n] > 0;
    }
  }
  open_.clear();
  for (size_t n = 0; n < nodes_; ++n)
    if (left_[n] > 0) open_.push_back(n);
  const double any = 1.0 / static_cast<double>(problem_.jobs.size());
  for (size_t j = 0; j < problem_.jobs.size() && !open_.empty(); ++j) {
    const auto cells = row(a, j);
    for (const size_t n : open_) {
      const double there = cells[n] > 0 ? 1.0 / holders_[n] : 0;
      if (!random_.chance(any + there - any * there)) continue;
      cells[n] = static_cast<uint16_t>(random_.between(cells[n], problem_.devices[n]));
    }
  }
}

void PolluxSearch::repair(Allocation& a) {
  spanned_.assign(nodes_, false);
  left_ = problem_.devices;
  for (size_t j = 0; j < problem_.jobs.size(); ++j) {
    const PolluxJob& job = problem_.jobs[j];
    const auto cells = row(a, j);
    if (std::ranges::count_if(cells, [](uint16_t c) { return c > 0; }) > 1)
      for (size_t n = 0; n < nodes_; ++n) {
        if (cells[n] == 0) continue;
        if (spanned_[n]) cells[n] = 0;
        spanned_[n] = true;
      }
    bound(cells, job.most);
    int workers = 0;
    for (size_t n = 0; n < nodes_; ++n) {
      cells[n] = static_cast<uint16_t>(std::min<int>(cells[n], left_[n]));
      workers += cells[n];
    }
    if (workers < job.least) std::ranges::fill(cells, 0);
    for (size_t n = 0; n < nodes_; ++n) left_[n] -= cells[n];
  }
}

// Takes what is too much from random nodes.
void PolluxSearch::bound(std::span<uint16_t> row, int most) {
  int workers = 0;
  open_.clear();
  for (size_t n = 0; n < row.size(); ++n)
    if (row[n] > 0) workers += row[n], open_.push_back(n);
  const auto most_nodes = static_cast<size_t>(problem_.most_nodes);
  if (workers <= most && open_.size() <= most_nodes) return;
  for (size_t i = 0; i < open_.size(); ++i) {
    std::swap(open_[i], open_[i + random_.below(open_.size() - i)]);
    uint16_t& cell = row[open_[i]];
    cell = i < most_nodes ? static_cast<uint16_t>(std::min<int>(cell, most)) : 0;
    most -= cell;
  }
}

// ---- the population ----------------------------------------------------------------------------

// Repairs it, and leaves it out if it is there already.
void PolluxSearch::add(Allocation a) {
  repair(a);
  const uint64_t hash = hash_of(a);
  const auto at = std::ranges::lower_bound(hashes_, hash);
  if (at != hashes_.end() && *at == hash) return;
  hashes_.insert(at, hash);
  const double f = fitness(a);
  living_.push_back({f, hash, std::move(a)});
}

void PolluxSearch::keep_the_fittest(size_t size) {
  std::ranges::stable_sort(living_, std::greater<>(), &Individual::fitness);
  if (living_.size() > size)
    living_.erase(living_.begin() + static_cast<ptrdiff_t>(size), living_.end());
  hashes_.clear();
  for (const Individual& i : living_) hashes_.push_back(i.hash);
  std::ranges::sort(hashes_);
}

// Two children of two of the first so many, which are the fittest: one has the jobs before a cut of
// one parent and the others of the other one, its sibling the reverse.
void PolluxSearch::bear(size_t parents) {
  const auto fitter_of_two = [&] {
    const uint64_t a = random_.below(parents), b = random_.below(parents);
    return living_[std::min(a, b)].allocation;
  };
  Allocation first = fitter_of_two(), second = fitter_of_two();
  const auto cut = static_cast<ptrdiff_t>(random_.below(problem_.jobs.size()) * nodes_);
  std::swap_ranges(first.begin(), first.begin() + cut, second.begin());
  for (Allocation* child : {&first, &second}) {
    mutate(*child);
    add(std::move(*child));
  }
}

}  // namespace sluice::policy
