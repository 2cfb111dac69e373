// Full: the requests that found no place in a decision. One that needs no less finds none either,
// as a decision only fills devices: a stopped instance keeps its rectangle until it has drained.
#pragma once

#include <algorithm>
#include <vector>

#include "policy/place/place.h"

namespace sluice::policy {

class Full {
 public:
  // Returns the spots for the request; empty if not all of them fit.
  std::vector<Spot> place(Layouts& layouts, const PlaceRequest& request) {
    if (known(request)) return {};
    std::vector<Spot> spots = layouts.place(request);
    if (spots.empty()) full_.push_back(request);
    return spots;
  }

 private:
  bool known(const PlaceRequest& r) const {
    return std::ranges::any_of(full_, [&](const PlaceRequest& f) {
      return (f.like == nullptr || f.like == r.like) && f.sm <= r.sm &&
             f.quota.request <= r.quota.request && f.memory <= r.memory && f.parts <= r.parts;
    });
  }

  std::vector<PlaceRequest> full_;
};

}  // namespace sluice::policy
