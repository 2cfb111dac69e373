// A bundle is a named choice of policies with their settings (DESIGN §2). Adding one is a file with
// its rules, its test, and one line in the table of bundle.cc.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "model/action.h"
#include "model/predictor.h"
#include "model/snapshot.h"

namespace sluice::policy {

// Settings of the policies that scale. The defaults are those of HAS-GPU's published code where it
// has one.
struct ScaleConfig {
  double alpha = 0.9;     // scale up when the forecast exceeds alpha × capacity
  double beta = 0.3;      // scale down when it is below beta × capacity
  Share quota_step{100};  // ΔI_q
  Share min_quota{50};
  Nanos cooldown = Seconds(10);  // between scale-downs of a function
  double min_rate = 0.1;         // R_min, inferences per second that always stay possible
  double slo_fraction = 1.0;     // of the SLO: the longest a candidate slice's batches may take
  bool idle_meets_slo = true;    // reading (g): idle keeps a quota that answers one request in time
  // Ours, off in the paper. An instance may use what its lane leaves idle: its request is what it
  // can count on, the whole window its limit. It is then in time if it is at its limit.
  bool borrow = false;
  // Ours, off in the paper: what waits has to be done within slo_fraction × SLO, on top of the
  // rate.
  bool work_off = false;
  // Ours, off in the paper. A gap of so much of the capacity is worth no start.
  double slack = 0;
  // Ours, off in the paper. No instance leaves until the last one that was started is ready and has
  // stayed for as long as its start took: a start costs more than what it holds.
  bool outlast_starts = false;
  Share unmeasured{250};            // request of an instance whose model was never measured
  double target_utilisation = 0.7;  // `exclusive`: of an instance's concurrency
};

// Looks at the functions whose bundle it is (`mine`, by name); sees the others' instances as taken
// room. Pure: no clock, no log; equal input gives equal output.
using ScaleFunction = std::vector<Action> (*)(const Snapshot& snapshot,
                                              std::span<const FunctionName> mine,
                                              const ScaleConfig& config,
                                              const Predictor& predictor);

// How often a bundle looks and decides.
struct Cadence {
  Nanos rate_window{};    // over which a rate is measured
  Nanos measure_every{};  // a measurement for the forecaster
  Nanos decide_every{};
};

struct Bundle {
  std::string_view name;
  std::string_view summary;  // one line for --help
  ScaleFunction scale;
  std::string_view forecast;  // forecast.h's name
  std::string_view arbiter;   // share.h's name; of a platform whose bundle it is
  Cadence cadence;
  ScaleConfig config;
  bool reaches_zero = false;    // stops the last instance too, where minReplicas is 0
  bool by_concurrency = false;  // reads scaleTarget
};

std::span<const Bundle> bundles();
const Bundle* find_bundle(std::string_view name);  // nullptr: there is none of that name

// By which a function goes: the one that its specification names, else the platform's. A name that
// is not known counts as the platform's; files are checked where they are read.
// REQUIRES: find_bundle(platform).
const Bundle& bundle_of(const FunctionSpec& spec, std::string_view platform);

}  // namespace sluice::policy
