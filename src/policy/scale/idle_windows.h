// Idle windows by a long-short-term histogram (INFless's LSTH, after Shahrad et al., ATC'20): how
// long after a request an idle function's instance is loaded again, and until when it is kept.
//
//   window = γ × a percentile of the long term's idle gaps + (1 − γ) × of the short term's
//
// The head's percentile makes the pre-warming window, the tail's the keep-alive window. A term is
// so many steps of a second; of a minute, if the seconds show too few gaps. Pure.
#pragma once

#include <optional>

#include "base/clock.h"
#include "model/arrival_history.h"

namespace sluice::policy {

struct LsthSettings {
  double gamma = 0.5;
  double head = 0.05, tail = 0.9;         // percentiles
  int long_term = 858, short_term = 200;  // steps
};

struct IdleWindows {
  Nanos pre_warm{0}, keep_alive{0};  // since the last request

  bool operator==(const IdleWindows&) const = default;
};

// Returns nothing if there are too few gaps.
std::optional<IdleWindows> idle_windows(const ArrivalHistory& history,
                                        const LsthSettings& settings);

}  // namespace sluice::policy
