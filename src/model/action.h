// What a decision may ask for, each with its reason in words and numbers. The same list feeds the
// cluster, the simulator, the log and the tests. Plain values.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/instance.h"

namespace sluice {

// `rule` is a short stable word ("vertical-up", "new-device"); `text` a sentence for people;
// `numbers` what the sentence rests on, in the order it was looked at.
struct Reason {
  std::string rule;
  std::string text;
  std::vector<std::pair<std::string, double>> numbers;

  bool operator==(const Reason&) const = default;
};

struct StartInstance {
  FunctionName function;
  int revision = 0;
  DeviceId device;
  Slice slice;
  Position position;
  int batch = 1;

  bool operator==(const StartInstance&) const = default;
};

struct StopInstance {
  InstanceId instance;  // drained first: no accepted request is dropped

  bool operator==(const StopInstance&) const = default;
};

struct ResizeInstance {
  InstanceId instance;
  Slice slice;
  Position position;

  bool operator==(const ResizeInstance&) const = default;
};

// Nothing could be done for a function; the reason says what was missing. Never dropped silently.
struct Unmet {
  double gap = 0;  // inferences per second

  bool operator==(const Unmet&) const = default;
};

struct Action {
  FunctionName function;
  std::variant<StartInstance, StopInstance, ResizeInstance, Unmet> what;
  Reason reason;

  bool operator==(const Action&) const = default;
};

}  // namespace sluice
