// Divides a machine's cores into CPU devices: at least four, so that placement over devices is real
// on any machine, beside a reserve for gateway, control loop and load generator. Pure: the machine
// is handed in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/local_device.h"

namespace sluice::node {

struct Machine {
  std::string node;        // its name
  std::string cpu_model;   // for people
  std::vector<int> cores;  // those this process may use, ascending
  Bytes memory = 0;
};

// Devices of one size, under a name of the user's.
struct CpuType {
  std::string name;
  int count = 0, millicores = 0;  // of each

  bool operator==(const CpuType&) const = default;
};

struct CpuSettings {
  int devices = 0;                    // 0: as many as fit well, at least four
  std::vector<CpuType> types;         // in place of `devices`
  double price_per_core_hour = 0.04;  // about a cloud's vCPU; the unit is the user's
};

struct CpuSplit {
  std::vector<LocalDevice> devices;
  std::vector<int> reserve;    // cores of no device; empty: the reserve is a share of time
  int reserve_millicores = 0;  // never below max(400, a fifth of the machine)

  bool operator==(const CpuSplit&) const = default;
};

// Whole cores if every device can have one, else equal shares of the cores that the reserve leaves.
// The devices are equal. Whole ones have a number of cores that divides 1000, so that a share in
// permille is a whole number of cores. Devices of named types are all of whole cores, or all
// smaller than one core and shares of the machine's time.
Result<CpuSplit> split_cpu(const Machine& machine, const CpuSettings& settings);

// Reads a number of devices, or types as in "big=1x740m,little=2x400m", into the settings. Returns
// kInvalid with what is allowed.
Result<void> parse_cpu_devices(std::string_view text, CpuSettings& settings);

// Returns the cores of a slice on a device with cores of its own: sm_begin and sm are multiples of
// its quantum.
std::vector<int> cores_of(const LocalDevice& device, Share sm_begin, Share sm);

// Returns how many threads can run at once on `sm` of the device: its cores, rounded up.
int threads_of(const Device& device, Share sm);

}  // namespace sluice::node
