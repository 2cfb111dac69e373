// A bundle is a named choice of policies with their settings . docs/adding-a-policy.md
// adds one to the table, in bundles.cc.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "model/action.h"
#include "policy/input.h"
#include "policy/plan/plans.h"

namespace sluice::policy {

// Of a bundle's inference functions. Treats other bundles' instances and training workers as
// occupied. Pure: no clock, no log; equal input gives equal output.
using ScaleFunction = std::vector<Action> (*)(Input& input);

// How often a bundle measures and decides.
struct Cadence {
  Nanos rate_window{};    // over which a rate is measured
  Nanos measure_every{};  // a measurement for the forecaster
  Nanos decide_every{};
};

struct Bundle {
  std::string_view name;
  std::string_view summary;  // one line for --help
  ScaleFunction scale;
  Settings settings;                    // of its policies
  std::string_view place = "lanes";     // place/place.h's name: where a new instance goes
  std::string_view route = "weighted";  // route.h's name: to which instance a request goes
  std::string_view forecast;            // forecast.h's name
  std::string_view plan = "sluice";     // plans.h's name: of jobs, if nothing else names theirs
  // arbiter.h's name; for the devices that it places on, by their kind (arbiter_on).
  std::string_view arbiter;
  Cadence cadence;
  bool reaches_zero = false;    // also stops the last instance, if minReplicas is 0
  bool by_concurrency = false;  // reads scaleTarget
  bool predicts = true;         // its decisions rest on predicted times
  int memory_version = 0;       // of its scaling
};

std::span<const Bundle> bundles();
const Bundle* find_bundle(std::string_view name);  // nullptr: unknown name

// Returns the bundle that the function's specification names, else the platform's. An unknown name
// counts as the platform's; files are checked where they are read.
// REQUIRES: find_bundle(platform).
const Bundle& bundle_of(const FunctionSpec& spec, std::string_view platform);

// Returns the plan that a training function's specification names, else the platform's, else its
// bundle's. An unknown name counts as none; files and options are checked where they are read.
const Plan& plan_of(const FunctionSpec& spec, std::string_view platform, const Bundle& bundle);

}  // namespace sluice::policy
