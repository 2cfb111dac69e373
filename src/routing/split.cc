#include "routing/split.h"

#include <algorithm>

namespace sluice::policy {

void RevisionSplit::set(std::span<const RevisionPercent> percents) {
  const bool same =
      std::equal(entries_.begin(), entries_.end(), percents.begin(), percents.end(),
                 [](const Entry& e, const RevisionPercent& p) { return e.share == p; });
  if (same) return;
  entries_.clear();
  for (const RevisionPercent& p : percents) entries_.push_back({p, 0});
}

// Smooth weighted round robin (see weighted.cc). Weights are whole percent, so after 100
// choices all balances are 0 again: the sequence has period 100, hence any 100 in a row are exact.
int RevisionSplit::next() {
  Entry* best = nullptr;
  int total = 0;
  for (Entry& e : entries_) {
    if (e.share.percent <= 0) continue;
    e.balance += e.share.percent;
    total += e.share.percent;
    if (best == nullptr || e.balance > best->balance) best = &e;
  }
  if (best == nullptr) return 0;
  best->balance -= total;
  return best->share.revision;
}

}  // namespace sluice::policy
