#include "control/api/device_names.h"

#include <gtest/gtest.h>

namespace sluice::control {
namespace {

std::vector<Device> devices(const std::vector<std::pair<std::string, std::string>>& ids) {
  std::vector<Device> all;
  for (const auto& [node, id] : ids) all.push_back({.id = id, .node = node});
  return all;
}

// Returns the device that it names, or the error.
std::string named(const std::vector<Device>& all, const std::string& text) {
  const auto id = device_named(all, text);
  return id.ok() ? *id : id.error().message;
}

TEST(DeviceNames, OfOneMachineAreShort) {
  const auto all = devices({{"a", "cpu0"}, {"a", "cpu1"}});
  const std::pair<const char*, const char*> table[] = {
      {"cpu1", "cpu1"},
      {"a/cpu1", "cpu1"},
      {"x", "device 'x' not found; there are cpu0 and cpu1"},
      {"a/x", "device 'a/x' not found; there are cpu0 and cpu1"},
      {"gone/cpu0", "device 'gone/cpu0': node 'gone' not found; there is a"},
  };
  for (const auto& [text, expected] : table) EXPECT_EQ(named(all, text), expected) << text;
}

TEST(DeviceNames, OfSeveralNodesNeedTheirNodeWhereTwoShareAName) {
  const auto all = devices({{"a", "a/cpu0"}, {"a", "a/cpu1"}, {"b", "b/cpu0"}});
  const std::pair<const char*, const char*> table[] = {
      {"b/cpu0", "b/cpu0"},
      {"cpu1", "a/cpu1"},
      {"cpu0", "device 'cpu0' is on several nodes: a/cpu0 and b/cpu0"},
      {"b/x", "device 'b/x' not found; there are a/cpu0, a/cpu1 and b/cpu0"},
      {"c/cpu0", "device 'c/cpu0': node 'c' not found; there are a and b"},
  };
  for (const auto& [text, expected] : table) EXPECT_EQ(named(all, text), expected) << text;
}

}  // namespace
}  // namespace sluice::control
