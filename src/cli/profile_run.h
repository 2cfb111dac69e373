// Measures a model on this machine: one instance (profile_subject.h), on a device with free time,
// through points of batch × sm × quota.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/result.h"
#include "cli/profile_points.h"
#include "control/profiles.h"
#include "model/function.h"

namespace sluice::cli {

struct ProfileProgress {
  const MeasuredPoint& point;  // measured just now
  int done = 0, total = 0;
  Nanos left{0};  // estimated
  int kept = 0;   // of `done`, those measured before an earlier start was cut off
};

// In `room`. `node_socket` is the daemon's; `spec` has its signature (check_model). `stop` ends the
// start and the sweep early; the profile then has the points measured so far, perhaps none.
// `data`: the platform's folder, for trials of measurements that have not ended (KeptTrials);
// empty: none are kept.
Result<control::Profile> profile_model(const std::string& node_socket, const ProfileRoom& room,
                                       const FunctionSpec& spec, const Sweep& sweep,
                                       const std::function<void(const ProfileProgress&)>& progress,
                                       const std::atomic<bool>* stop = nullptr,
                                       const std::string& data = "");

}  // namespace sluice::cli
