// scale_exclusive: a whole device per instance, as KServe with one GPU per replica. Scaled out by
// concurrency as Knative's autoscaler does it: as many instances as keep each at target_utilisation
// of the requests it may have at once. In only when the largest concurrency of the last minute
// needs fewer, one per cooldown. Never more instances than free devices: the rest is reported.
#pragma once

#include "policy/bundle.h"

namespace sluice::policy {

struct ExclusiveSettings {
  double target_utilisation = 0.7;  // of what an instance may have at once, where no file says
  Nanos cooldown = Seconds(10);     // between instances of a function that leave

  static std::span<const Setting<ExclusiveSettings>> settings();
};

std::vector<Action> scale_exclusive(Turn& turn);

}  // namespace sluice::policy
