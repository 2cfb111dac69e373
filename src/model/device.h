// Something that computes: a CUDA GPU, or a part of this machine's CPU. A plain value.
#pragma once

#include <string>

#include "model/slice.h"

namespace sluice {

enum class DeviceKind { kCpu, kCuda };

using DeviceId = std::string;  // unique in the cluster: "cpu0", or a GPU's UUID

struct Device {
  DeviceId id;
  DeviceKind kind = DeviceKind::kCpu;
  std::string node;    // the machine it belongs to
  std::string model;   // what it calls itself, for people
  int sms = 0;         // CUDA: streaming multiprocessors
  int millicores = 0;  // CPU: thousandths of a core; below 1000 it is a share of one
  Bytes memory = 0;
  Share sm_quantum = kWhole;   // the finest spatial share it can hold
  bool can_resize_sm = false;  // may a running instance's sm change? Only on a CPU (not under MPS)
  bool drained = false;        // takes no new instance
  double price_per_hour = 0;   // of the whole device; the unit is the user's

  bool operator==(const Device&) const = default;
};

}  // namespace sluice
