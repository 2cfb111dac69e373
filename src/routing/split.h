// Which revision an arriving request belongs to. Deterministic: of any 100 requests in a row each
// revision gets exactly its percentage, spread evenly. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/routing.h"

namespace sluice::policy {

using sluice::RevisionPercent;

class RevisionSplit {
 public:
  // Percentages ≥ 0. They need not add up to 100: what counts is the proportion. The sequence
  // starts anew only if something changed, so a table that is sent again does not disturb it.
  void set(std::span<const RevisionPercent> percents);

  // The next request's revision; 0 when no revision has traffic.
  int next();

 private:
  struct Entry {
    RevisionPercent share;
    int balance = 0;
  };
  std::vector<Entry> entries_;
};

}  // namespace sluice::policy
