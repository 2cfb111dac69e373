// The search for a model's best configuration in few trials. A plan says which trial comes next, as
// a function of what was measured, and does not run it, so that the same plan searches a live model
// and a table of earlier measurements.
//
// The best configuration is that with the highest efficacy among those that are in time (Dilu's TE,
// FaST-GShare's RPR):
//
//   efficacy = batch ÷ (time × sm × quota)
//
// Pure; plans have no state.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "model/predictor.h"

namespace sluice::profile {

// What may be tried, ascending. Not every combination need exist.
struct Grid {
  std::vector<int> batches;
  std::vector<Share> sms, quotas;
};

struct Search {
  Grid grid;
  Nanos in_time = Nanos::max();  // the longest that a batch may take
};

// What was measured, in that order. A trial without a median could not run.
using Trials = std::vector<MeasuredPoint>;

double efficacy(const Configuration& at, Nanos time);
// Returns the best of those in time; nullptr: none is.
const MeasuredPoint* best_of(std::span<const MeasuredPoint> points, Nanos in_time);
// Returns nullptr if there was no such trial.
const MeasuredPoint* find(std::span<const MeasuredPoint> points, const Configuration& at);

class SearchPlan {
 public:
  virtual ~SearchPlan() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view meaning() const = 0;  // for people
  // Returns a configuration that was not tried; nullopt: the search is over.
  virtual std::optional<Configuration> next(const Search& search, const Trials& trials) const = 0;
};

// Returns the trials that a first model rests on: along the diagonal of batch and sm, then the
// quota's ends for the two ways in which it may act (time_model.h).
std::vector<Configuration> corners(const Grid& grid);

// grid, growth, fitted and spread.
const std::vector<std::unique_ptr<SearchPlan>>& search_plans();
// Returns nullptr for a name that is none of theirs.
const SearchPlan* search_plan(std::string_view name);

// Runs the plan to its end, or for so many trials, over points that were measured before. A
// configuration that is not among them cannot run.
Trials search_in(std::span<const MeasuredPoint> table, const SearchPlan& plan, const Search& search,
                 int most_trials);

// The grid of a table's points.
Grid grid_of(std::span<const MeasuredPoint> points);

}  // namespace sluice::profile
