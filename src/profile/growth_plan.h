// growth: Dilu's hybrid growth search (D1; policy/scale/growth_search.h), along the sm, or along
// the quota where a device's sm is not divided.
#pragma once

#include "profile/search.h"

namespace sluice::profile {

class GrowthPlan : public SearchPlan {
 public:
  std::string_view name() const override { return "growth"; }
  std::string_view meaning() const override {
    return "a larger batch while in time, else a larger share (Dilu)";
  }
  std::optional<Configuration> next(const Search& search, const Trials& trials) const override;
};

}  // namespace sluice::profile
