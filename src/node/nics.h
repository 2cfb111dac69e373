// A machine's network cards, and how near each is to a GPU: by where the two hang in the tree of
// PCIe that the kernel shows under /sys, in the words of `nvidia-smi topo -m`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/device.h"

namespace sluice::node {

// A card at one place of the tree has one name: its InfiniBand device's, else its first network
// interface's. Virtual functions, and what does not hang on PCIe, are none.
class NicTopology {
 public:
  // `sys`: where sysfs is mounted. What cannot be read there is not there.
  explicit NicTopology(const std::filesystem::path& sys);

  // By name. `bus`: the GPU's address, as NVML writes it; of one that is not found, nothing.
  std::vector<NicLink> near(const std::string& bus) const;

 private:
  struct Place {
    std::vector<std::string> steps;  // from the root of its tree down to itself
    int numa_node = -1;              // -1: the machine has none, or does not say
  };
  struct Nic {
    std::string name;
    Place place;
  };

  static Place place_of(const std::filesystem::path& device);
  static PciePath between(const Place& one, const Place& other);
  void add(const std::filesystem::path& devices);

  const std::filesystem::path sys_;
  std::vector<Nic> nics_;
};

}  // namespace sluice::node
