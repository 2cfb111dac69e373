#include "policy/plan/board.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <utility>

#include "base/check.h"

namespace sluice::policy {

double device_price(double least, double most, int held, int devices) {
  return least * std::pow(most / least, devices == 0 ? 1 : 1.0 * held / devices);
}

Board::Board(std::vector<int> devices, size_t rounds)
    : devices_(std::move(devices)), held_(rounds, std::vector<int>(devices_.size())) {
  for (int& d : devices_) d = std::max(d, 0);
  make_classes();
  std::vector<std::vector<uint32_t>> empty(classes_.size());
  for (size_t n = 0; n < devices_.size(); ++n)
    empty[class_by_held_[static_cast<size_t>(devices_[n])][0]].push_back(static_cast<uint32_t>(n));
  members_.assign(rounds, empty);
  set_bounds(1, std::numbers::e);
}

// Prices rise with held ÷ devices whatever the bounds are, so the order of the classes is fixed.
void Board::make_classes() {
  for (const int devices : std::set<int>(devices_.begin(), devices_.end()))
    for (int held = 0; held <= devices; ++held) classes_.push_back({devices, held});
  const auto load = [](const Class& c) { return c.devices == 0 ? 1 : 1.0 * c.held / c.devices; };
  std::ranges::stable_sort(classes_, {}, load);
  int largest = 0;
  for (const Class& c : classes_) largest = std::max(largest, c.devices);
  class_by_held_.resize(static_cast<size_t>(largest) + 1);
  for (size_t c = 0; c < classes_.size(); ++c) {
    const auto devices = static_cast<size_t>(classes_[c].devices);
    class_by_held_[devices].resize(devices + 1);
    class_by_held_[devices][static_cast<size_t>(classes_[c].held)] = c;
  }
}

void Board::set_bounds(double least, double most) {
  least_ = std::max(least, 1.0);
  most_ = least_ * std::clamp(most / least_, std::numbers::e, 1e4);
  prices_.clear();
  for (const Class& c : classes_) prices_.push_back(device_price(least_, most_, c.held, c.devices));
}

int Board::free(size_t round) const {
  int sum = 0;
  for (size_t n = 0; n < nodes(); ++n) sum += free(round, n);
  return sum;
}

double Board::price(size_t round, const Placed& placed) const {
  double sum = 0;
  for (const auto& [node, workers] : placed) sum += workers * price(round, node);
  return sum;
}

bool Board::fits(const Schedule& schedule) const {
  for (size_t r = 0; r < std::min(schedule.size(), rounds()); ++r)
    for (const auto& [node, workers] : schedule[r])
      if (node >= nodes() || workers > free(r, node)) return false;
  return true;
}

void Board::change(const Schedule& schedule, int sign) {
  for (size_t r = 0; r < std::min(schedule.size(), rounds()); ++r)
    for (const auto& [node, workers] : schedule[r]) {
      const auto id = static_cast<uint32_t>(node);
      std::vector<uint32_t>& before = members_[r][class_of(r, node)];
      before.erase(std::ranges::lower_bound(before, id));
      held_[r][node] += sign * workers;
      SLUICE_CHECK(held_[r][node] >= 0 && free(r, node) >= 0, "a plan beyond a node's devices");
      std::vector<uint32_t>& after = members_[r][class_of(r, node)];
      after.insert(std::ranges::lower_bound(after, id), id);
    }
}

double Board::cheapest(size_t round) const {
  for (size_t c = 0; c < classes(); ++c)
    if (free_in(c) > 0 && !members_[round][c].empty()) return prices_[c];
  return std::numeric_limits<double>::infinity();
}

}  // namespace sluice::policy
