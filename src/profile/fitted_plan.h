// fitted: ours. A few trials in the grid's corners fit a model of the time (time_model.h). Then the
// configuration that should be the best one is tried, and the model fitted again, until that one
// and the same with less quota were tried: then no other is expected to be better.
#pragma once

#include "profile/search.h"

namespace sluice::profile {

class FittedPlan : public SearchPlan {
 public:
  std::string_view name() const override { return "fitted"; }
  std::string_view meaning() const override {
    return "where a model fitted to the trials expects the best (ours)";
  }
  std::optional<Configuration> next(const Search& search, const Trials& trials) const override;
};

}  // namespace sluice::profile
