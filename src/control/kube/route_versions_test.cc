#include "control/kube/route_versions.h"

#include <gmock/gmock.h>

namespace sluice::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kFloor = 1000;

// Returns a table of one function with these ready instances.
RoutingTable table_of(int64_t version, const std::vector<InstanceId>& ready) {
  RoutingTable t{.version = version};
  FunctionRoute& f = t.functions["f"];
  f.name.name = "f";
  for (const InstanceId& id : ready) f.instances.push_back({.id = id, .ready = true});
  return t;
}

class RouteVersionsTest : public testing::Test {
 protected:
  std::set<InstanceId> routed(int64_t gateway) {
    return versions.still_routed(gateway, [this] { return all; });
  }

  const std::set<InstanceId> all{"a", "b", "c"};
  RouteVersions versions{kFloor};
};

TEST_F(RouteVersionsTest, TheFirstTableIsWholeAndLaterOnesAreChanges) {
  const auto first = versions.take(table_of(1, {"a"}));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->since, 0);
  EXPECT_EQ(first->version, kFloor);
  const auto second = versions.take(table_of(2, {"a", "b"}));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->since, kFloor);
  EXPECT_EQ(second->version, kFloor + 1);
  EXPECT_EQ(second->changed.at("f").instances.size(), 2u);
  const auto third = versions.take({.version = 3});
  ASSERT_TRUE(third);
  EXPECT_THAT(third->changed, IsEmpty());
  ASSERT_EQ(third->removed.size(), 1u);
  EXPECT_EQ(third->removed[0].name, "f");
}

TEST_F(RouteVersionsTest, TheSameRoutesUnderAnotherVersionAreNotWritten) {
  versions.take(table_of(1, {"a"}));
  EXPECT_FALSE(versions.take(table_of(7, {"a"})));
  EXPECT_EQ(versions.version(), kFloor);
}

TEST_F(RouteVersionsTest, AGatewayMayRouteWhereItDidUntilItHasTheChange) {
  versions.take(table_of(1, {"a", "b", "c"}));
  versions.take(table_of(2, {"a", "b"}));
  versions.take(table_of(3, {"a"}));
  EXPECT_THAT(routed(kFloor), ElementsAre("b", "c"));
  EXPECT_THAT(routed(kFloor + 1), ElementsAre("b"));
  EXPECT_THAT(routed(kFloor + 2), IsEmpty());
  versions.take(table_of(4, {"a", "b"}));
  EXPECT_THAT(routed(kFloor), ElementsAre("c")) << "b is routed again";
  versions.all_have(kFloor + 1);
  EXPECT_THAT(routed(kFloor), IsEmpty());
}

TEST_F(RouteVersionsTest, ARemovedFunctionsInstancesLeave) {
  versions.take(table_of(1, {"a"}));
  versions.take({.version = 2});
  EXPECT_THAT(routed(kFloor), ElementsAre("a"));
  EXPECT_THAT(routed(kFloor + 1), IsEmpty());
}

// A controller has taken over: what the gateway has is of the one before.
TEST_F(RouteVersionsTest, AGatewayWithoutTheFirstTableMayRouteAnywhere) {
  versions.see(kFloor + 5);
  const auto first = versions.take(table_of(1, {"a"}));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->version, kFloor + 6) << "larger than a gateway's";
  EXPECT_THAT(routed(kFloor + 5), ElementsAre("b", "c"));
  EXPECT_THAT(routed(kFloor + 6), IsEmpty());
}

// The clock went back, and a gateway of the time before returns.
TEST_F(RouteVersionsTest, ALaterVersionAtAGatewayHasTheWholeTableWrittenAgain) {
  versions.take(table_of(1, {"a"}));
  versions.see(kFloor + 50);
  const auto again = versions.take(table_of(2, {"a"}));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->since, 0);
  EXPECT_EQ(again->version, kFloor + 51);
  EXPECT_FALSE(versions.take(table_of(3, {"a"})));
}

}  // namespace
}  // namespace sluice::control
