#include "node/records.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/folder.h"

namespace sluice::node {
namespace {

InstanceRecord record(const InstanceId& id, InstanceState state = InstanceState::kReady) {
  return {.instance = {.id = id, .state = state, .parts = {{"cpu0", {}, {}}}}};
}

struct RecordsTest : testing::Test {
  std::vector<InstanceId> on_disk() const {
    const NodeState state = **Registry(file, "boot").load();
    std::vector<InstanceId> ids;
    for (const InstanceRecord& r : state.instances) ids.push_back(r.instance.id);
    return ids;
  }
  // From now on disk writes fail.
  void break_disk() { std::filesystem::create_directory(file + ".new"); }

  TemporaryFolder folder;
  std::string file = folder.path + "/node.state";
  asio::io_context io{1};
  Changes changes{io};
  Records records{file, NodeState{.boot_id = "boot", .devices = {{{.id = "cpu0"}, {}}}}, changes};
};

TEST_F(RecordsTest, EveryChangeIsOnDiskAndCounted) {
  ASSERT_TRUE(records.add(record("a")).ok());
  ASSERT_TRUE(records.add(record("b")).ok());
  EXPECT_EQ(on_disk(), (std::vector<InstanceId>{"a", "b"}));
  ASSERT_TRUE(records.remove("a").ok());
  EXPECT_EQ(on_disk(), std::vector<InstanceId>{"b"});
  EXPECT_EQ(records.find("a"), nullptr);
  EXPECT_EQ(records.find("b")->instance.id, "b");
  EXPECT_EQ(changes.version(), 3u);
}

TEST_F(RecordsTest, ARecordThatTheDiskRefusesIsNotThere) {
  ASSERT_TRUE(records.add(record("a")).ok());
  break_disk();
  EXPECT_FALSE(records.add(record("b")).ok());
  EXPECT_EQ(records.find("b"), nullptr);
  EXPECT_NE(records.find("a"), nullptr);
  EXPECT_EQ(on_disk(), std::vector<InstanceId>{"a"});
}

TEST_F(RecordsTest, AllThatLiveAndTheNewest200ThatAreGoneAreKept) {
  records.instances().push_back(record("old"));
  for (int i = 0; i < 203; ++i)
    records.instances().push_back(record("gone-" + std::to_string(i), InstanceState::kGone));
  records.forget_old();
  EXPECT_EQ(records.state().instances.size(), 201u);
  EXPECT_NE(records.find("old"), nullptr);
  EXPECT_EQ(records.find("gone-2"), nullptr);
  EXPECT_NE(records.find("gone-3"), nullptr);
}

TEST_F(RecordsTest, ADrainedDeviceIsSoOnDiskWithItsFault) {
  ASSERT_TRUE(records.set_drained("cpu0", true, "it burns").ok());
  const NodeState state = **Registry(file, "boot").load();
  EXPECT_TRUE(state.devices[0].device.drained);
  EXPECT_EQ(state.devices[0].device.fault, "it burns");
}

}  // namespace
}  // namespace sluice::node
