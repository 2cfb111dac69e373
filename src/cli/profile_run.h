// Measures a model on this machine: one instance, started beside the control loop on a device with
// free time, through points of batch × sm × quota. It is a real instance behind its real gate, as
// in service.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/profiles.h"
#include "model/device.h"
#include "model/function.h"
#include "profile/search.h"
#include "wire/http/http.h"

namespace sluice::cli {

struct Sweep {
  std::vector<int> batches{1, 2, 4, 8};
  std::vector<Share> quotas{{1000}, {700}, {400}, {200}, {100}};
  Nanos per_point = Millis(1000);  // at least, and at least three batches
  // Points that would end later are left out, the smallest quotas first; the table extrapolates
  // there. 0: none is left out.
  Nanos budget{0};
  // Which of the points are tried, in which order; nullptr: all of them, as they come.
  const profile::SearchPlan* plan = nullptr;
  Nanos in_time = Nanos::max();  // for the plan: the longest that a batch may take
  int most_trials = 1000;
  // What a program is asked: with protocol http at `path`, by GET where there is no body.
  std::string path = "/", body;
};

struct ProfileProgress {
  const MeasuredPoint& point;  // measured just now
  int done = 0, total = 0;
  Nanos left{0};  // estimated
  int kept = 0;   // of `done`, those measured before an earlier start was cut off
};

// What of a device a measurement may use.
struct ProfileRoom {
  Device device;
  Share quota;
  Bytes memory;  // that is free; only what an instance may hold is counted on a GPU
};
// Returns, of each type that the function may run on, the device with most time left, if that is a
// fifth. Returns kExhausted if there is none, with how to free some. `state` is the node's.
Result<std::vector<ProfileRoom>> rooms_to_measure(const nlohmann::json& state,
                                                  const FunctionSpec& spec);

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
