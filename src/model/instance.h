// One running copy of a revision, holding a slice on a device. A plain value.
#pragma once

#include <string>

#include "base/clock.h"
#include "model/device.h"
#include "model/function.h"

namespace sluice {

using InstanceId = std::string;  // "name-3-k7f2": unique for ever, readable

enum class InstanceState {
  kStarting,  // asked for; counts as capacity, so that a gap is not filled twice
  kReady,
  kDraining,  // finishes what it accepted, gets nothing new
  kGone,
};

struct Instance {
  InstanceId id;
  FunctionName function;
  int revision = 0;
  InstanceState state = InstanceState::kStarting;
  DeviceId device;
  Slice slice;
  Position position;
  int batch = 1;
  Time started{};  // when the start was decided

  bool operator==(const Instance&) const = default;
};

}  // namespace sluice
