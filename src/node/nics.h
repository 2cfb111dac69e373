// A machine's network cards, and how near each is to a GPU by the PCIe tree that the kernel shows
// under /sys, in the terms of `nvidia-smi topo -m`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/device.h"

namespace sluice::node {

// A card at one place of the tree has one name: its InfiniBand device's, else its first network
// interface's. Virtual functions, and devices that are not on PCIe, do not count.
class NicTopology {
 public:
  // `sys`: where sysfs is mounted. Unreadable entries count as absent.
  explicit NicTopology(const std::filesystem::path& sys);

  // Sorted by name. `bus`: the GPU's address, as NVML writes it; nothing for an unknown one.
  std::vector<NicLink> near(const std::string& bus) const;

 private:
  struct Place {
    std::vector<std::string> steps;  // from the root of its tree down to itself
    int numa_node = -1;              // -1: the machine has none, or does not report it
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
