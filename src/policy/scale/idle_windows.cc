#include "policy/scale/idle_windows.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace sluice::policy {
namespace {

constexpr size_t kFewestGaps = 5;

// By nearest rank. REQUIRES: there is a gap.
double gap_percentile(const std::vector<int>& sorted, double part) {
  const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

std::vector<int> sorted_gaps(std::span<const uint32_t> counts) {
  std::vector<int> gaps = idle_gaps(counts);
  std::ranges::sort(gaps);
  return gaps;
}

std::optional<IdleWindows> windows_in_steps(const std::vector<uint32_t>& counts, Nanos step,
                                            const LsthSettings& s) {
  const std::vector<int> all = sorted_gaps(counts);
  if (all.size() < kFewestGaps) return std::nullopt;
  const size_t short_term = std::min(counts.size(), static_cast<size_t>(s.short_term));
  std::vector<int> recent = sorted_gaps(std::span(counts).last(short_term));
  if (recent.empty()) recent = all;
  const auto window = [&](double part) {
    const double steps =
        s.gamma * gap_percentile(all, part) + (1 - s.gamma) * gap_percentile(recent, part);
    return from_seconds(steps * seconds(step));
  };
  return IdleWindows{window(s.head), window(s.tail)};
}

}  // namespace

std::optional<IdleWindows> idle_windows(const ArrivalHistory& history, const LsthSettings& s) {
  const auto quick = windows_in_steps(history.per_second(s.long_term), Seconds(1), s);
  return quick ? quick : windows_in_steps(history.per_minute(s.long_term), Seconds(60), s);
}

}  // namespace sluice::policy
