// scale_smif: SMIF's autoscaler (MLSys'22, §4.4): by the objective and by inferences, over groups
// of alike instances. A group has a *kind*: a type of device, and a share of its SMs under MPS. Its
// service rate μ is what its instances answer per busy second, until then as predicted.
//
//   up     if the objective's percentile is late, or λ > ρ × Σ μ: on the kind that covers what is
//          missing at the least cost; if that kind is full, on the next (heterogeneous)
//   down   if the rest without one instance holds ρ: of the most expensive kind
//   to 0   the last instance moves to the cheapest kind that is in time; then none, once idle
//
// Only a kind that is in time alone is chosen. λ counts inferences over 6 s, Knative's panic
// window; no instance stops before its stable window of 60 s has passed without such a λ. The
// policy remembers when it last searched for a cheaper kind for the last instance, and which kinds
// were late.
#pragma once

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

struct SmifSettings {
  double utilisation = 0.8;    // ρ
  double slo_fraction = 1;     // of the objective: the longest a batch may take
  Nanos window = Seconds(60);  // stable, whose busiest load counts for scaling down
  static std::span<const Setting<SmifSettings>> settings();
};

std::vector<Action> scale_smif(Input& input);

}  // namespace sluice::policy
