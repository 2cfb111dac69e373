#include "profile/search.h"

#include <algorithm>
#include <set>

#include "profile/fitted_plan.h"
#include "profile/grid_plan.h"
#include "profile/growth_plan.h"
#include "profile/spread_plan.h"

namespace sluice::profile {

double efficacy(const Configuration& at, Nanos time) {
  return at.batch / (seconds(time) * at.sm.fraction() * at.quota.fraction());
}

const MeasuredPoint* best_of(std::span<const MeasuredPoint> points, Nanos in_time) {
  const MeasuredPoint* best = nullptr;
  for (const MeasuredPoint& p : points) {
    if (p.median <= Nanos(0) || p.median > in_time) continue;
    if (best == nullptr || efficacy(p.at, p.median) > efficacy(best->at, best->median)) best = &p;
  }
  return best;
}

const MeasuredPoint* find(std::span<const MeasuredPoint> points, const Configuration& at) {
  const auto found = std::find_if(points.begin(), points.end(),
                                  [&](const MeasuredPoint& p) { return p.at == at; });
  return found != points.end() ? &*found : nullptr;
}

std::vector<Configuration> corners(const Grid& g) {
  if (g.batches.empty() || g.sms.empty() || g.quotas.empty()) return {};
  const auto middle = [](const auto& all) { return all[all.size() / 2]; };
  std::vector<Configuration> all = {
      {g.batches.front(), g.sms.front(), g.quotas.back()},
      {middle(g.batches), middle(g.sms), g.quotas.back()},
      {g.batches.back(), g.sms.back(), g.quotas.back()},
  };
  if (g.quotas.size() > 1) {
    all.push_back({g.batches.front(), g.sms.back(), g.quotas.front()});
    all.push_back({g.batches.back(), g.sms.back(), middle(g.quotas)});
  }
  return all;
}

const std::vector<std::unique_ptr<SearchPlan>>& search_plans() {
  static const auto all = [] {
    std::vector<std::unique_ptr<SearchPlan>> plans;
    plans.push_back(std::make_unique<FittedPlan>());
    plans.push_back(std::make_unique<GrowthPlan>());
    plans.push_back(std::make_unique<SpreadPlan>());
    plans.push_back(std::make_unique<GridPlan>());
    return plans;
  }();
  return all;
}

const SearchPlan* search_plan(std::string_view name) {
  for (const auto& plan : search_plans())
    if (plan->name() == name) return plan.get();
  return nullptr;
}

Trials search_in(std::span<const MeasuredPoint> table, const SearchPlan& plan, const Search& search,
                 int most_trials) {
  Trials trials;
  while (static_cast<int>(trials.size()) < most_trials) {
    const std::optional<Configuration> at = plan.next(search, trials);
    if (!at) break;
    const MeasuredPoint* known = find(table, *at);
    trials.push_back(known != nullptr ? *known : MeasuredPoint{.at = *at});
  }
  return trials;
}

Grid grid_of(std::span<const MeasuredPoint> points) {
  std::set<int> batches;
  std::set<Share> sms, quotas;
  for (const MeasuredPoint& p : points) {
    batches.insert(p.at.batch);
    sms.insert(p.at.sm);
    quotas.insert(p.at.quota);
  }
  return {
      {batches.begin(), batches.end()}, {sms.begin(), sms.end()}, {quotas.begin(), quotas.end()}};
}

}  // namespace sluice::profile
