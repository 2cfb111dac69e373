#include "model/snapshot_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Functions a, b, c; devices d0, d1; instances as "function on device".
Snapshot cluster(const std::vector<std::pair<std::string, std::string>>& instances) {
  Snapshot s;
  for (const char* name : {"a", "b", "c"}) s.functions.emplace_back().spec.name.name = name;
  for (const char* id : {"d0", "d1"}) s.devices.emplace_back().id = id;
  for (const auto& [function, device] : instances) {
    Instance& i = s.instances.emplace_back();
    i.id = "i" + std::to_string(s.instances.size() - 1);
    i.function.name = function;
    i.first().device = device;
  }
  return s;
}

TEST(SnapshotIndex, FindsWhatTheSnapshotHas) {
  const Snapshot s = cluster({{"a", "d1"}});
  const SnapshotIndex index(s);
  EXPECT_EQ(index.function({"default", "b"}), 1u);
  EXPECT_EQ(index.function({"other", "b"}), std::nullopt);
  EXPECT_EQ(index.device("d1"), 1u);
  EXPECT_EQ(index.device("d2"), std::nullopt);
  EXPECT_EQ(index.instance("i0"), 0u);
  EXPECT_EQ(index.instance("i1"), std::nullopt);
}

TEST(SnapshotIndex, InstancesAreListedByFunctionAndByDevice) {
  const Snapshot s = cluster({{"a", "d1"}, {"c", "d0"}, {"a", "d0"}, {"a", "d1"}});
  const SnapshotIndex index(s);
  EXPECT_THAT(index.of_function(0), ElementsAre(0, 2, 3));
  EXPECT_THAT(index.of_function(1), IsEmpty());
  EXPECT_THAT(index.of_function(2), ElementsAre(1));
  EXPECT_THAT(index.on_device(0), ElementsAre(1, 2));
  EXPECT_THAT(index.on_device(1), ElementsAre(0, 3));
  EXPECT_EQ(index.function_of(1), 2u);
  EXPECT_EQ(index.device_of(1), 0u);
}

TEST(SnapshotIndex, AnInstanceOfNoKnownFunctionOrDeviceIsInNoList) {
  const Snapshot s = cluster({{"gone", "d0"}, {"a", "gone"}});
  const SnapshotIndex index(s);
  EXPECT_EQ(index.function_of(0), std::nullopt);
  EXPECT_EQ(index.device_of(1), std::nullopt);
  EXPECT_THAT(index.on_device(0), ElementsAre(0));
  EXPECT_THAT(index.of_function(0), ElementsAre(1));
  EXPECT_THAT(index.on_device(1), IsEmpty());
}

}  // namespace
}  // namespace sluice
