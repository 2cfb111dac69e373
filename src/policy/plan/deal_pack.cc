#include "policy/plan/deal_pack.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace sluice::policy {
namespace {

// Takes them from `free`.
Placed place(int workers, std::vector<int>& free) {
  Placed placed;
  while (workers > 0) {
    // The node on which all fit and that has the least beyond, else the one with the most.
    const auto rank = [&](size_t n) {
      const bool fits = free[n] >= workers;
      return std::tuple(!fits, fits ? free[n] : -free[n], n);
    };
    size_t best = 0;
    for (size_t n = 1; n < free.size(); ++n)
      if (rank(n) < rank(best)) best = n;
    const int here = free.empty() ? 0 : std::min(free[best], workers);
    if (here == 0) break;
    placed.emplace_back(best, here);
    free[best] -= here;
    workers -= here;
  }
  std::ranges::sort(placed);
  return placed;
}

}  // namespace

Dealt pack(const Table& table, const std::vector<int>& workers) {
  Dealt dealt(table.jobs.size());
  std::vector<int> free = table.devices;
  std::vector<size_t> moved;
  for (size_t j = 0; j < dealt.size(); ++j) {
    const Placed& now = table.jobs[j].now;
    if (workers[j] != workers_in(now)) {
      moved.push_back(j);
      continue;
    }
    dealt[j] = now;
    for (const auto& [node, count] : now) free[node] -= count;
  }
  std::ranges::stable_sort(moved, [&](size_t a, size_t b) { return workers[a] > workers[b]; });
  for (const size_t j : moved) dealt[j] = place(workers[j], free);
  return dealt;
}

}  // namespace sluice::policy
