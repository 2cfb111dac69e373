// A bundle is a named choice of policies with their settings (DESIGN §2). Adding one is a file with
// its rules, its test, and one line in the table of bundle.cc.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "model/action.h"
#include "model/predictor.h"
#include "model/snapshot.h"
#include "policy/settings.h"

namespace sluice::policy {

// What a policy remembers from one decision to the next: numbers, by a key that names a function, a
// device or the cluster. The loop saves it. A policy must do without: it may be lost, and one of
// another version is dropped. Times are seconds of the loop's clock.
struct Memory {
  int version = 0;
  std::map<std::string, std::vector<double>> numbers;

  bool operator==(const Memory&) const = default;
};

// What a bundle's policy decides from, and what it may change: its memory and the generator.
struct Turn {
  const Snapshot& snapshot;
  std::span<const FunctionName> mine;  // the functions whose bundle it is, by name
  std::span<const Settings> settings;  // of each of them
  const Predictor& predictor;
  Memory& memory;
  Random& random;
};

// Sees the others' instances as taken room. Pure: no clock, no log; equal input gives equal output.
using ScaleFunction = std::vector<Action> (*)(Turn& turn);

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
  Settings settings;                    // of its policies
  std::string_view route = "weighted";  // route.h's name: to which instance a request goes
  std::string_view forecast;            // forecast.h's name
  std::string_view arbiter;             // share.h's name; of a platform whose bundle it is
  Cadence cadence;
  bool reaches_zero = false;    // stops the last instance too, where minReplicas is 0
  bool by_concurrency = false;  // reads scaleTarget
  int memory_version = 0;
};

std::span<const Bundle> bundles();
const Bundle* find_bundle(std::string_view name);  // nullptr: there is none of that name

// By which a function goes: the one that its specification names, else the platform's. A name that
// is not known counts as the platform's; files are checked where they are read.
// REQUIRES: find_bundle(platform).
const Bundle& bundle_of(const FunctionSpec& spec, std::string_view platform);

}  // namespace sluice::policy
