// scale_exclusive: a whole device per instance, as KServe with one GPU per replica. Scaled out by
// concurrency as Knative's autoscaler does it: as many instances as keep each at target_utilisation
// of the requests it may have at once. In only when the largest concurrency of the last minute
// needs fewer, one per cooldown. Never more instances than free devices: the rest is reported.
#pragma once

#include "policy/bundle.h"

namespace sluice::policy {

std::vector<Action> scale_exclusive(const Snapshot& snapshot, std::span<const FunctionName> mine,
                                    const ScaleConfig& config, const Predictor& predictor);

}  // namespace sluice::policy
