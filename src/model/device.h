// A CUDA GPU, or a part of this machine's CPU. A plain value.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/slice.h"

namespace sluice {

enum class DeviceKind { kCpu, kCuda };

// Unique in its cluster: "NODE/cuda0"; where the cluster is one node, "cuda0".
using DeviceId = std::string;

// The nearest common ancestor of two GPUs on PCIe, from near to far.
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

// Makes devices comparable: profiles, predictions and prices are of a type. A CPU device's type is
// its size ("cpu/500m": half a core); a GPU's is its model ("NVIDIA A100-SXM4-40GB").
struct DeviceType {
  std::string name;

  auto operator<=>(const DeviceType&) const = default;
};

// Whether a GPU's hardware can split it into instances (NVIDIA's MIG), and does.
enum class MigMode { kNone, kOff, kOn };

struct Device {
  DeviceId id;
  DeviceKind kind = DeviceKind::kCpu;
  std::string node;               // the name of the one it belongs to
  bool reachable = true;          // its node answers; else nothing on it is started or changed
  std::string model;              // its own name, for people
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
  std::string type_name;          // CPU: as its user calls its type; empty: it is of its size's
  Bytes memory = 0;
  Share sm_quantum = kWhole;   // the finest spatial share it can hold
  bool can_resize_sm = false;  // may a running instance's sm change? Not where MPS confines it
  bool drained = false;        // cordoned: takes no new instance
  std::string fault;           // why its node has cordoned it; empty: it is sound
  std::string set_apart;       // why its node withholds it though it is sound; empty: it does not
  double price_per_hour = 0;   // of the whole device; the unit is the user's
  Nanos window = Millis(20);   // of its arbiter: the period of quotas
  std::string arbiter;         // the user fixed it; empty: the first instance on the device chooses

  bool operator==(const Device&) const = default;
};

// A GPU without a reported model is of type "cuda". CPU devices of one size on machines of
// different processors are of one type, unless their users named it.
DeviceType type_of(const Device&);

// Returns whether a prediction for one holds for the other: they are of one type, and their
// arbiters have the same window. Makes no strings: policies compare often.
bool alike(const Device& a, const Device& b);

// Returns an hour's price of a share of it. Devices without a price cost 1 each.
double price_of(const Device& d, Share share);

// The first of each kind of devices that are alike.
std::vector<const Device*> one_of_each_type(std::span<const Device> devices);

}  // namespace sluice
