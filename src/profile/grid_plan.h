// grid: every configuration of the grid (FaST-GShare's profiler, F5). The largest quotas come
// first, so that an instance's slice only shrinks.
#pragma once

#include "profile/search.h"

namespace sluice::profile {

class GridPlan : public SearchPlan {
 public:
  std::string_view name() const override { return "grid"; }
  std::string_view meaning() const override { return "every configuration (FaST-GShare)"; }
  std::optional<Configuration> next(const Search& search, const Trials& trials) const override;
};

}  // namespace sluice::profile
