// Something that computes: a CUDA GPU, or a part of this machine's CPU. A plain value.
#pragma once

#include <string>
#include <vector>

#include "model/slice.h"

namespace sluice {

enum class DeviceKind { kCpu, kCuda };

using DeviceId = std::string;  // unique on its node: "cpu0", "cuda0"

// The nearest that two GPUs have in common on PCIe, from near to far.
enum class PciePath { kBoard, kSwitch, kSwitches, kHostBridge, kNumaNode, kSystem };

// From a GPU to another of its machine.
struct DeviceLink {
  DeviceId to;
  int nvlinks = 0;  // that join the two, through a switch or not
  PciePath path = PciePath::kSystem;

  bool operator==(const DeviceLink&) const = default;
};

// From a GPU to a network card of its machine.
struct NicLink {
  std::string nic;  // as the kernel calls it: "mlx5_0", "eth0"
  PciePath path = PciePath::kSystem;

  bool operator==(const NicLink&) const = default;
};

// Whether a GPU can be split into instances by its hardware (NVIDIA's MIG), and is.
enum class MigMode { kNone, kOff, kOn };

struct Device {
  DeviceId id;
  DeviceKind kind = DeviceKind::kCpu;
  std::string node;               // the machine it belongs to
  std::string model;              // what it calls itself, for people
  std::string uuid;               // CUDA: its name everywhere and for ever
  std::string bus;                // CUDA: its PCI address
  int compute_capability = 0;     // CUDA: ten times the major number, and the minor; 0: not known
  int sms = 0;                    // CUDA: streaming multiprocessors; 0: not known
  bool mps = false;               // CUDA: can confine each client of MPS to some of its SMs
  std::string mps_status;         // CUDA: whether MPS serves it now; for people
  MigMode mig = MigMode::kNone;   // CUDA
  std::vector<DeviceLink> links;  // CUDA: by `to`
  std::vector<NicLink> nics;      // CUDA: by `nic`
  int millicores = 0;             // CPU: thousandths of a core; below 1000 it is a share of one
  Bytes memory = 0;
  Share sm_quantum = kWhole;   // the finest spatial share it can hold
  bool can_resize_sm = false;  // may a running instance's sm change? Not where MPS confines it
  bool drained = false;        // takes no new instance
  std::string fault;           // it fails, for which its node has drained it; empty: it does not
  std::string set_apart;  // why its node gives none of it out, though it is sound; empty: it does
  double price_per_hour = 0;  // of the whole device; the unit is the user's

  bool operator==(const Device&) const = default;
};

}  // namespace sluice
