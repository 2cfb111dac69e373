// One running copy of a revision, holding a slice on each of its devices. A plain value.
#pragma once

#include <string>
#include <vector>

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

// What an instance holds of one device.
struct Part {
  DeviceId device;
  Slice slice;
  Position position;

  bool operator==(const Part&) const = default;
};

// An instance has at least one part, and each part a device of its own.
using Parts = std::vector<Part>;

struct Instance {
  InstanceId id;
  FunctionName function;
  int revision = 0;
  InstanceState state = InstanceState::kStarting;
  Parts parts = Parts(1);
  int batch = 1;
  Time started{};       // when the start was decided
  std::string arbiter;  // that its device runs for it; empty: not known, or any

  // The first part, which is all of an instance with one.
  Part& first() { return parts.front(); }
  const Part& first() const { return parts.front(); }
  const DeviceId& device() const { return first().device; }
  const Slice& slice() const { return first().slice; }
  const Position& position() const { return first().position; }

  bool operator==(const Instance&) const = default;
};

}  // namespace sluice
