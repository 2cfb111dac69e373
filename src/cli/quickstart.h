// The main job in parts: a platform of its own, measured models, one play of the trace under one
// policy. The same plans can be played under several policies, so that they meet the same load.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/session.h"
#include "model/function.h"

namespace sluice::cli {

struct QuickstartFlags {
  double seconds = 120;
  std::string policy = "has-gpu", report, models, trace;
  bool keep = false, compare = false, wide = false, training = false;
  bool serves = true, trains = false;  // what a play does
  std::string training_data;           // folder of tools/make_training
  bool borrow = false;                 // fixed: idle time of its device too
  uint64_t seed = 1;
  double level = 0.25;                // mean load, as a part of all devices
  std::map<std::string, int> slices;  // fixed: permille of a device's time, by function
  std::vector<std::string> only;      // the functions to play; empty: all
};

constexpr const char* kQuickstartModels[] = {"resnet50", "mobilenet_v2", "bert_base"};
std::string function_of(std::string model);  // the function that serves it

// A function with its load.
struct Plan {
  FunctionSpec spec;
  double rate = 0;         // requests per second, mean
  nlohmann::json profile;  // in the API's form
};

// Starts a platform in `session.data` (emptied before), deploys and plays. `plans` are measured
// there if there are none yet. The platform ends with the play unless `flags.keep`. Returns the
// report that --report writes.
Result<nlohmann::json> play(const Session& session, const QuickstartFlags& flags,
                            std::vector<Plan>& plans);

// Applies the functions with their profiles, and waits until they are ready.
Result<void> deploy(const Session& session, const std::vector<Plan>& plans,
                    const QuickstartFlags& flags);

// Applies the training job, and waits until it trains.
Result<void> deploy_job(const Session& session, const QuickstartFlags& flags);

// What the job does from its construction on.
class JobMeter {
 public:
  explicit JobMeter(const Session& session);
  // Returns {samples, samples_per_second, changes}; changes: of its workers, since it began.
  Result<nlohmann::json> read() const;

 private:
  const Session& session_;
  const SteadyClock clock_;
  const Time begun_;
  int64_t first_ = 0;
};

// Plays the load, the training job, and both together; prints what they cost each other.
Result<nlohmann::json> play_with_training(const Session& session, QuickstartFlags flags);

// Shows a server of inference on loan to training, and its return when a function of `plan` comes.
// Returns {lent_s, served_s}: from the platform's start, and from when the function was applied.
Result<nlohmann::json> play_loan(const Session& session, const QuickstartFlags& flags,
                                 const Plan& plan);

// Returns an error if a request failed: late and shed requests are the demonstration's subject,
// failed ones are not.
Result<void> nothing_failed(const nlohmann::json& report);

}  // namespace sluice::cli
