// spread: ours. After the grid's corners always the configuration of whose time the trials say
// least (trials_model.h), twenty in all: for a profile of the whole grid, where the other plans
// look for its best.
#pragma once

#include "profile/search.h"

namespace sluice::profile {

class SpreadPlan : public SearchPlan {
 public:
  std::string_view name() const override { return "spread"; }
  std::string_view meaning() const override {
    return "where the trials so far are least sure, twenty in all: for all of the grid (ours)";
  }
  std::optional<Configuration> next(const Search& search, const Trials& trials) const override;
};

}  // namespace sluice::profile
