// scale_exclusive: a whole device per instance, as KServe with one GPU per replica. Scales out by
// concurrency like Knative's autoscaler: as many instances as keep each at target_utilisation of
// the requests it may have at once. Scales in only when the largest concurrency of the last minute
// needs fewer, one instance per cooldown. Never starts more instances than free devices; reports
// the rest.
#pragma once

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

struct ExclusiveSettings {
  double target_utilisation = 0.7;  // of an instance's maximum, if no file says
  Nanos cooldown = Seconds(10);     // between a function's scale-downs

  static std::span<const Setting<ExclusiveSettings>> settings();
};

std::vector<Action> scale_exclusive(Input& input);

}  // namespace sluice::policy
