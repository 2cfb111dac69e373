#include "control/local/servers.h"

#include <gtest/gtest.h>

namespace sluice::control {
namespace {

TEST(Servers, AreReadFromWords) {
  EXPECT_EQ(servers_from("").value(), Servers{});
  EXPECT_EQ(servers_from("4").value(), Servers{.both = 4});
  EXPECT_EQ(servers_from("inference=2,training=1").value(),
            (Servers{.inference = 2, .training = 1}));
  EXPECT_EQ(servers_from("training=1,3").value(), (Servers{.training = 1, .both = 3}));
}

TEST(Servers, BadWordsAreRefused) {
  for (const char* text : {"0", "-1", "x", "inference", "inference=", "inference=2,", "2,2", "65",
                           "inference=1,inference=1", "other=2", "inference=40,training=40"}) {
    const auto servers = servers_from(text);
    ASSERT_FALSE(servers.ok()) << text;
    EXPECT_TRUE(servers.error().message.starts_with("servers: '" + std::string(text) + "'"));
  }
}

Observation machine(int devices) {
  Observation o;
  o.nodes.push_back({.node = {.name = "host", .boot_id = "boot"}, .seen = 1});
  for (int d = 0; d < devices; ++d) {
    o.devices.push_back({.id = "cpu" + std::to_string(d), .node = "host"});
    o.nodes[0].node.devices.push_back(o.devices.back().id);
  }
  return o;
}

// "server01: cpu0 cpu1, inference"
std::string shown(const Observation& o) {
  std::string out;
  for (const ObservedNode& n : o.nodes) {
    out += (out.empty() ? "" : "; ") + n.node.name + ":";
    for (const DeviceId& d : n.node.devices) out += " " + d;
    for (const auto& [key, value] : n.node.labels) out += ", " + value;
  }
  return out;
}

TEST(Servers, DivideTheDevicesInOrder) {
  Observation o = machine(4);
  ObservedInstance instance;
  instance.instance.id = "f-1";
  instance.instance.parts = {{"cpu2", {}, {}}};
  instance.node = "host";
  o.instances.push_back(instance);
  divide({.inference = 1, .training = 1}, o);
  EXPECT_EQ(shown(o), "server01: cpu0 cpu1, inference; server02: cpu2 cpu3, training");
  EXPECT_EQ(o.devices[1].node, "server01");
  EXPECT_EQ(o.instances[0].node, "server02");
  EXPECT_EQ(o.nodes[1].node.boot_id, "boot");
}

TEST(Servers, AreAtMostTheDevices) {
  Observation o = machine(2);
  divide({.inference = 1, .training = 1, .both = 7}, o);
  EXPECT_EQ(shown(o), "server01: cpu0, inference; server02: cpu1, training");
  o = machine(1);
  divide({}, o);
  EXPECT_EQ(shown(o), "host: cpu0");
}

}  // namespace
}  // namespace sluice::control
