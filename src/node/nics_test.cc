// The distance of network cards from a GPU, in small artificial trees of sysfs.
#include "node/nics.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/folder.h"

namespace sluice::node {
namespace {

namespace fs = std::filesystem;

constexpr char kGpu[] = "00000000:3B:00.0";
constexpr char kGpuAt[] = "pci0000:3a/0000:3a:00.0/0000:3b:00.0";

class Nics : public testing::Test {
 protected:
  Nics() { pci(kGpuAt, 0); }

  fs::path device(const std::string& at) { return fs::path(folder_.path) / "devices" / at; }
  // A function of PCIe, with the folders above it.
  void pci(const std::string& at, int numa_node) {
    fs::create_directories(device(at));
    std::ofstream(device(at) / "numa_node") << numa_node << "\n";
    link("bus/pci/devices/" + device(at).filename().string(), device(at));
  }
  void link(const std::string& from, const fs::path& to) {
    const fs::path path = fs::path(folder_.path) / from;
    fs::create_directories(path.parent_path());
    fs::create_symlink(to, path);
  }
  // A card: its class, its name, and its device.
  void nic(const std::string& name, const std::string& at) {
    fs::create_directories(device(at) / name);
    link("class/" + name, device(at) / name);
    link("devices/" + at + "/" + name + "/device", device(at));
  }

  // "eth0 PIX · eth1 SYS"
  std::string near(const std::string& bus = kGpu) {
    const std::vector<std::string> words{"BOARD", "PIX", "PXB", "PHB", "NODE", "SYS"};
    std::string text;
    for (const NicLink& link : NicTopology(folder_.path).near(bus))
      text +=
          (text.empty() ? "" : " · ") + link.nic + " " + words.at(static_cast<size_t>(link.path));
    return text;
  }

  const TemporaryFolder folder_;
};

TEST_F(Nics, AreAsFarAsWhatLiesBetween) {
  const std::string port = "pci0000:40/0000:40:00.0/0000:41:00.0/";  // a switch's upper end
  pci(port + "0000:42:00.0/0000:43:00.0", 0);                        // the GPU of this test
  const struct {
    const char *name, *at;
    int numa_node;
  } cards[] = {{"net/a", "0000:42:01.0/0000:44:00.0", 0},
               {"net/b", "0000:42:02.0/0000:45:00.0/0000:46:00.0/0000:47:00.0", 0}};
  for (const auto& card : cards) {
    pci(port + card.at, card.numa_node);
    nic(card.name, port + card.at);
  }
  pci("pci0000:40/0000:40:01.0/0000:50:00.0", 0);
  nic("net/c", "pci0000:40/0000:40:01.0/0000:50:00.0");
  pci("pci0000:60/0000:60:00.0/0000:61:00.0", 0);
  nic("net/d", "pci0000:60/0000:60:00.0/0000:61:00.0");
  pci("pci0000:80/0000:80:00.0/0000:81:00.0", 1);
  nic("net/e", "pci0000:80/0000:80:00.0/0000:81:00.0");
  EXPECT_EQ(near("00000000:43:00.0"), "a PIX · b PXB · c PHB · d NODE · e SYS");
  EXPECT_EQ(near("0000:43:00.0"), near("00000000:43:00.0"));
}

TEST_F(Nics, FunctionsOfOneBoardAreNear) {
  pci("pci0000:3a/0000:3a:00.0/0000:3b:00.1", 0);
  nic("net/eth0", "pci0000:3a/0000:3a:00.0/0000:3b:00.1");
  EXPECT_EQ(near(), "eth0 PIX");
}

TEST_F(Nics, ACardHasOneName) {
  const std::string at = "pci0000:3a/0000:3a:00.0/0000:3b:00.1";
  pci(at, 0);
  nic("net/ens1f1np1", at);
  nic("net/ens1f1np0", at);
  EXPECT_EQ(near(), "ens1f1np0 PIX");
  nic("infiniband/mlx5_0", at);
  EXPECT_EQ(near(), "mlx5_0 PIX");
}

TEST_F(Nics, WhatDoesNotHangOnPcieIsNone) {
  fs::create_directories(device("virtual/net/lo"));
  link("class/net/lo", device("virtual/net/lo"));  // no device behind it
  fs::create_directories(device("platform/soc/eth"));
  nic("net/eth0", "platform/soc/eth");
  link("class/net/eth1", folder_.path + "/nowhere");  // a link to nothing
  std::ofstream(fs::path(folder_.path) / "class/net/bonding_masters") << "bond0\n";
  EXPECT_EQ(near(), "");
}

TEST_F(Nics, VirtualFunctionsAreNoneAndVirtualMachinesCardsAreSome) {
  const std::string part = "pci0000:3a/0000:3a:00.0/0000:3b:00.2";
  pci(part, 0);
  nic("net/eth0v0", part);
  link("devices/" + part + "/physfn", device(kGpuAt));
  const std::string virtio = "pci0000:3a/0000:3a:03.0";
  pci(virtio, 0);
  nic("net/eth0", virtio + "/virtio0");
  EXPECT_EQ(near(), "eth0 PHB");
}

TEST_F(Nics, NumaNodesThatAreNotSaidAreOne) {
  pci("pci0000:50/0000:50:00.0", -1);
  nic("net/eth0", "pci0000:50/0000:50:00.0");
  EXPECT_EQ(near(), "eth0 SYS") << "one says, the other does not";
  std::ofstream(device(kGpuAt) / "numa_node") << "-1\n";
  EXPECT_EQ(near(), "eth0 NODE");
  fs::remove(device(kGpuAt) / "numa_node");
  EXPECT_EQ(near(), "eth0 NODE");
}

TEST_F(Nics, AMachineThatShowsNothingHasNone) {
  EXPECT_EQ(near(""), "");
  EXPECT_EQ(near("nonsense"), "");
  EXPECT_EQ(near("00000000:99:00.0"), "");
  fs::remove_all(folder_.path);
  EXPECT_EQ(near(), "");
}

}  // namespace
}  // namespace sluice::node
