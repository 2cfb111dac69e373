// scale_infless: INFless (ASPLOS'22) as Dilu's evaluation has it, INFless+. Instances hold a fixed
// share of SMs under MPS.
//
//   configuration  (batch b, share g): t(b, g) ≤ SLO ÷ 2, or ≤ SLO for b = 1; requests must come
//                  fast enough to fill b in the rest of the SLO: b ÷ (SLO − t) per second
//   up             if λ > 0.8 × Σ b ÷ t: by the configurations with the largest e = throughput ÷
//                  (g × price), of what is missing
//   down           an instance stays for a keep-alive window after it was last needed
//   idle           loaded again before the pre-warming window ends, and kept until the keep-alive
//                  window ends (idle_windows.h)
//
// Throughput is as predicted, as INFless has it. Where there are too few idle gaps, the file's
// scaleToZeroAfter is the keep-alive window.
#pragma once

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

struct InflessSettings {
  double load_rate = 0.8;     // part of an instance's throughput that it is given
  double slo_fraction = 0.5;  // of the SLO: the longest a batch of several may take
  double gamma = 0.5;         // weight of the long term's histogram
  double head = 0.05, tail = 0.9;
  int long_term = 858, short_term = 200;
  static std::span<const Setting<InflessSettings>> settings();
};

std::vector<Action> scale_infless(Input& input);

}  // namespace sluice::policy
