#include "cli/profile_table.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/words.h"
#include "cli/session.h"
#include "cli/table.h"
#include "control/profiles.h"
#include "profile/search.h"
#include "profile/trials_model.h"
#include "trace/text_file.h"
#include "trace/time_tables.h"
#include "wire/json/json.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

struct Found {
  std::string model;
  const profile::SearchPlan* plan;
  Nanos in_time;
  profile::Trials trials;
  const MeasuredPoint *pick, *best;  // nullptr: none is in time

  // Of what the trials say of all others: the mean of |said ÷ measured − 1|.
  double off_elsewhere;

  double of_best() const {
    if (pick == nullptr || best == nullptr) return 0;
    return profile::efficacy(pick->at, pick->median) / profile::efficacy(best->at, best->median);
  }
};

Result<std::vector<trace::TimeTable>> read_profiles(const std::string& path) {
  SLUICE_ASSIGN(text, trace::read_text(path));
  const auto parsed = wire::parse_json(text);
  if (!parsed.ok()) return within(path, parsed.error());
  std::vector<trace::TimeTable> tables;
  for (const json& item : parsed->is_array() ? *parsed : json::array({*parsed})) {
    const auto p = control::profile_from(item);
    if (!p.ok()) return within(path, p.error());
    tables.push_back({p->model, p->points});
  }
  if (tables.empty()) return Error{ErrorKind::kInvalid, path + ": has no profile"};
  return tables;
}

double error_elsewhere(const trace::TimeTable& table, const profile::Trials& trials) {
  std::vector<MeasuredPoint> others;
  for (const MeasuredPoint& p : table.points)
    if (profile::find(trials, p.at) == nullptr) others.push_back(p);
  if (others.empty()) return 0;
  const profile::TrialsModel model(trials);
  double sum = 0;
  for (const MeasuredPoint& p : others)
    sum += std::abs(seconds(model(p.at)) / seconds(p.median) - 1);
  return sum / static_cast<double>(others.size());
}

std::vector<Found> search_all(const std::vector<trace::TimeTable>& tables, const TableSearch& s) {
  std::vector<Found> all;
  for (const trace::TimeTable& table : tables) {
    if (table.points.empty() || (!s.model.empty() && table.model != s.model)) continue;
    const auto shortest = std::ranges::min(table.points, {}, &MeasuredPoint::median).median;
    const Nanos in_time = s.in_time.value_or(from_seconds(s.times_shortest * seconds(shortest)));
    const profile::Search search{profile::grid_of(table.points), in_time};
    for (const auto& plan : profile::search_plans()) {
      if (!s.plan.empty() && plan->name() != s.plan) continue;
      Found f{table.model,
              plan.get(),
              in_time,
              profile::search_in(table.points, *plan, search, s.most_trials),
              nullptr,
              profile::best_of(table.points, in_time),
              0};
      f.off_elsewhere = error_elsewhere(table, f.trials);
      all.push_back(std::move(f));
    }
  }
  for (Found& f : all) f.pick = profile::best_of(f.trials, f.in_time);
  return all;
}

json to_json(const MeasuredPoint* p) {
  if (p == nullptr) return nullptr;
  return {{"batch", p->at.batch},
          {"sm", p->at.sm.permille},
          {"quota", p->at.quota.permille},
          {"latency_ms", millis(p->median)}};
}

json to_json(const Found& f) {
  json trials = json::array();
  for (const MeasuredPoint& p : f.trials) trials.push_back(to_json(&p));
  return {{"model", f.model},
          {"plan", f.plan->name()},
          {"in_time_ms", millis(f.in_time)},
          {"trials", trials},
          {"pick", to_json(f.pick)},
          {"best", to_json(f.best)},
          {"of_best", f.of_best()},
          {"off_elsewhere", f.off_elsewhere}};
}

std::string configuration(const MeasuredPoint* p) {
  if (p == nullptr) return "none in time";
  return "batch " + std::to_string(p->at.batch) + ", sm " + percent(p->at.sm.permille) +
         ", quota " + percent(p->at.quota.permille);
}

std::string time_of(const MeasuredPoint& p) {
  return p.median > Nanos(0) ? fixed(millis(p.median), 2) + "ms" : "not measured";
}

void print_found(const std::vector<Found>& all, bool trials) {
  Table t({"MODEL", "IN-TIME", "PLAN", "TRIALS", "CHOICE", "TIME", "OF-BEST", "OFF-ELSEWHERE"});
  for (const Found& f : all)
    t.add({f.model, fixed(millis(f.in_time), 1) + "ms", std::string(f.plan->name()),
           std::to_string(f.trials.size()), configuration(f.pick),
           f.pick == nullptr ? "-" : time_of(*f.pick), fixed(100 * f.of_best(), 1) + "%",
           fixed(100 * f.off_elsewhere, 1) + "%"});
  std::cout << t.text();
  for (const Found& f : all) {
    if (!trials) continue;
    std::cout << "\n" << f.model << ", " << f.plan->name() << ":\n";
    for (const MeasuredPoint& p : f.trials)
      std::cout << "  " << configuration(&p) << ": " << time_of(p) << "\n";
  }
}

}  // namespace

Result<void> search_in_table(const TableSearch& s, bool as_json) {
  SLUICE_ASSIGN(tables, s.table.ends_with(".json") ? read_profiles(s.table)
                                                   : trace::read_time_tables(s.table));
  const std::vector<Found> all = search_all(tables, s);
  if (all.empty()) {
    std::vector<std::string> models;
    for (const auto& table : tables) models.push_back(table.model);
    return Error{ErrorKind::kInvalid, "--model: '" + s.model + "' is not in " + s.table +
                                          "; there are " + listed(models)};
  }
  if (!as_json) return print_found(all, s.trials), Result<void>();
  json out = json::array();
  for (const Found& f : all) out.push_back(to_json(f));
  print(out);
  return {};
}

}  // namespace sluice::cli
