// The loop's state of one function. Plain values.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/desired_state.h"
#include "control/minute_peak.h"
#include "control/traffic.h"
#include "policy/bundle.h"
#include "policy/forecast.h"
#include "train/job_status.h"

namespace sluice::control {

struct FunctionState {
  StoredFunction stored;
  const policy::Bundle* bundle = nullptr;  // of the newest revision
  Traffic traffic;
  std::shared_ptr<ArrivalHistory> arrivals = std::make_shared<ArrivalHistory>();
  LatencyQuantiles latency;              // of the last seconds
  std::vector<ObservedAnswers> answers;  // of its instances, as last observed
  policy::Forecast forecast;
  MinutePeak forecast_peak;
  Time last_scale_down{}, last_request{};
  std::optional<train::JobStatus> job;  // of a training function, once its controller is there
  Time submitted{};                     // of that job
  std::string unavailable;              // why it gets no requests
  // Its instances, as last observed or ordered.
  struct Presence {
    bool alive = false;
    bool newest_ready = false, newest_starts = false;
    bool serving_ready = false;
    int64_t longest_start_ms = 0;  // 0: none became ready
  } present;
};

// Returns the gateways' last report of an instance; nullptr if none has a route to it.
const ObservedAnswers* answers_of(const FunctionState& f, const InstanceId& id);

using Functions = std::map<FunctionName, FunctionState>;

// Finds the functions of many instances. Ids begin with the function's name, so neighbours are
// mostly of one function, which is then found at once.
class FunctionFinder {
 public:
  explicit FunctionFinder(Functions& functions) : functions_(functions), at_(functions.end()) {}
  FunctionState* find(const FunctionName& name) {  // nullptr: unknown name
    if (at_ == functions_.end() || at_->first != name) at_ = functions_.find(name);
    return at_ == functions_.end() ? nullptr : &at_->second;
  }

 private:
  Functions& functions_;
  Functions::iterator at_;
};

// Fills in `present` from instances that are sorted by id and those that were ordered.
void note_presence(Functions& functions, const std::vector<ObservedInstance>& seen,
                   const std::map<InstanceId, Instance>& ordered);

}  // namespace sluice::control
