// Measures a model on this machine: one instance, started beside the control loop where a device
// has room, through points of batch × sm × quota. The instance is the real one behind its real
// gate: what is measured is what will be served.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/device.h"
#include "model/function.h"
#include "predict/profile_table.h"
#include "wire/http.h"

namespace sluice::cli {

struct Sweep {
  std::vector<int> batches{1, 2, 4, 8};
  std::vector<Share> quotas{{1000}, {700}, {400}, {200}, {100}};
  Nanos per_point = Millis(1000);  // at least, and at least three batches
  // Points that would end later are left out, the smallest quotas first; the table extrapolates
  // there. 0: none is left out.
  Nanos budget{0};
};

struct ProfileProgress {
  const predict::ProfilePoint& point;  // measured just now
  int done = 0, total = 0;
  Nanos left{0};  // estimated
};

// What a measurement may use: a share of time of a device.
struct ProfileRoom {
  Device device;
  Share quota;
};
// The device with most time left. kExhausted: each has less than a fifth, with what would make
// room. `state` is the node's.
Result<ProfileRoom> room_to_measure(const nlohmann::json& state);

// `node_socket` is the daemon's; `spec` has its signature (check_model). `stop` ends the
// start and the sweep early; the profile then has the points that were measured, perhaps none.
// kExhausted as of room_to_measure.
Result<predict::Profile> profile_model(const std::string& node_socket, const FunctionSpec& spec,
                                       const Sweep& sweep,
                                       const std::function<void(const ProfileProgress&)>& progress,
                                       const std::atomic<bool>* stop = nullptr);

}  // namespace sluice::cli
