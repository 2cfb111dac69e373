// A decision's possible actions, each with its reason in words and numbers. The same list feeds the
// cluster, the simulator, the log and the tests. Plain values.
//
// The control loop executes StartInstance, StopInstance and ResizeInstance, and reports Unmet. A
// Loan has taken effect in the decision that made it, and is recorded. An instance's batch is set
// at its start; a running one keeps it.
#pragma once

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/instance.h"

namespace sluice {

// `rule` is a short stable word ("vertical-up", "new-device"); `text` a sentence for people;
// `numbers` its figures, in the order of the decision.
struct Reason {
  std::string rule;
  std::string text;
  std::vector<std::pair<std::string, double>> numbers;

  bool operator==(const Reason&) const = default;
};

struct StartInstance {
  FunctionName function;
  int revision = 0;
  Parts parts = Parts(1);
  int batch = 1;
  std::string arbiter;  // required of the device; empty: any

  const Part& first() const { return parts.front(); }

  bool operator==(const StartInstance&) const = default;
};

struct StopInstance {
  InstanceId instance;  // drained first: no accepted request is dropped

  bool operator==(const StopInstance&) const = default;
};

struct ResizeInstance {
  InstanceId instance;
  Parts parts = Parts(1);  // all of them, in their order

  const Part& first() const { return parts.front(); }

  bool operator==(const ResizeInstance&) const = default;
};

// Nothing could be done for a function; the reason says what was missing. Never dropped silently.
struct Unmet {
  double gap = 0;  // inferences per second

  bool operator==(const Unmet&) const = default;
};

// A node goes from one virtual cluster to another, on loan or back.
struct Loan {
  std::string node;
  std::string from, to;  // virtual clusters

  bool operator==(const Loan&) const = default;
};

using Wanted = std::variant<StartInstance, StopInstance, ResizeInstance, Unmet, Loan>;

// Returns its name in logs and journals: "start", "loan".
constexpr std::string_view name_of(const Wanted& what) {
  constexpr std::string_view kNames[] = {"start", "stop", "resize", "unmet", "loan"};
  static_assert(std::size(kNames) == std::variant_size_v<Wanted>);
  return kNames[what.index()];
}

struct Action {
  FunctionName function;
  Wanted what;
  Reason reason;

  bool operator==(const Action&) const = default;
};

}  // namespace sluice
