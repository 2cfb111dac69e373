// Routes of gateways, their versions, and drains that wait for them.
#include "tests/support/kube_cluster_fixture.h"

namespace sluice::control {
namespace {

TEST_F(KubeClusterTest, ADrainWaitsUntilEveryGatewayKnowsOfIt) {
  apply(1);
  EXPECT_TRUE(comes("an instance", [&] { return serves(1); }));
  EXPECT_TRUE(comes("its routes", [&] {
    return version_at("gateway-b") == bed->objects.routes.version &&
           !bed->objects.routes.functions.at("f").instances.empty();
  }));
  bed->cut_off = {"gateway-b"};
  ASSERT_TRUE(Requests(*control).remove(kF, wall).ok());
  ticks(Seconds(10));
  EXPECT_GT(version_at("gateway"), version_at("gateway-b"));
  EXPECT_EQ(stops(), 0) << "the other gateway may give it requests";
  EXPECT_EQ(ready().size(), 1u);
  bed->cut_off.clear();
  bed->fetch_routes();
  ticks(Seconds(2));
  EXPECT_GT(stops(), 0);
  EXPECT_TRUE(comes("its end", [&] { return bed->objects.all_pods.empty(); }));
}

TEST_F(KubeClusterTest, AGatewayThatStaysBehindDelaysADrainByItsTimeAlone) {
  apply(1);
  EXPECT_TRUE(comes("an instance", [&] { return serves(1); }));
  ticks(Seconds(2));
  bed->cut_off = {"gateway-b"};
  ASSERT_TRUE(Requests(*control).remove(kF, wall).ok());
  ticks(Seconds(20));
  EXPECT_EQ(stops(), 0);
  ticks(Seconds(15));
  EXPECT_GT(stops(), 0);
}

TEST_F(KubeClusterTest, RoutesAreWrittenOnceForAllGatewaysAndOnlyWhenTheyChange) {
  apply(1);
  EXPECT_TRUE(comes("an instance", [&] { return serves(1); }));
  ticks(Seconds(2));
  const int writes = bed->objects.writes;
  const int64_t version = bed->objects.routes.version;
  ticks(Seconds(30));
  EXPECT_EQ(bed->objects.writes, writes);
  {
    const std::lock_guard lock(mutex);
    truth.add_gateway("gateway-c");  // which knows no routes yet
  }
  bed->add_gateway("gateway-c");
  ticks(Seconds(5));
  bed->fetch_routes();
  ticks(Seconds(5));
  EXPECT_EQ(version_at("gateway-c"), version);
  EXPECT_EQ(bed->objects.writes, writes) << "it has fetched them";
}

TEST_F(KubeClusterTest, VersionsOfRoutesDoNotGoBackWithAnotherController) {
  apply(1);
  EXPECT_TRUE(comes("an instance", [&] { return serves(1); }));
  ticks(Seconds(2));
  const int64_t before = bed->objects.routes.version;
  EXPECT_GE(before, 1'000'000);
  bed->objects.routes.functions["stale"].name.name = "stale";
  take_over(1000);  // its clock is slow
  ticks(Seconds(5));
  EXPECT_GT(bed->objects.routes.version, before);
  EXPECT_EQ(bed->objects.last_since, 0) << "it does not know what was written";
  EXPECT_FALSE(bed->objects.routes.functions.contains("stale"));
  EXPECT_EQ(version_at("gateway-b"), bed->objects.routes.version);
  take_over(2'000'000);
  ticks(Seconds(5));
  EXPECT_GE(bed->objects.routes.version, 2'000'000);
  EXPECT_TRUE(serves(1));
}

TEST_F(KubeClusterTest, AGatewayIsListedOnceItHasRun) {
  const auto listed = [&] {
    const Observation o = observe();
    return std::ranges::count(o.gateways, "gateway-c", &ObservedGateway::name) == 1;
  };
  bed->objects.all_gateways.push_back({.name = "gateway-c", .endpoint = ""});
  EXPECT_FALSE(listed());
  bed->objects.all_gateways.back().endpoint = "unix:/nothing/here";
  EXPECT_TRUE(listed());
  bed->objects.all_gateways.back().endpoint = "";
  EXPECT_TRUE(listed()) << "it may have requests";
  bed->objects.all_gateways.pop_back();
  EXPECT_FALSE(listed());
}

// It did not reach the API server while a controller whose clock is slow wrote its first table.
TEST_F(KubeClusterTest, AGatewayThatReportsALaterVersionHasTheRoutesWrittenAgain) {
  const auto set_versions = [&](int64_t one, int64_t other) {
    const std::lock_guard lock(mutex);
    truth.seen.gateways[0].routes_version = one;
    truth.seen.gateways[1].routes_version = other;
  };
  set_versions(5, 5);
  take_over(1000);
  apply(1);
  EXPECT_TRUE(comes("an instance", [&] { return serves(1); }));
  ticks(Seconds(2));
  const int64_t before = bed->objects.routes.version;
  EXPECT_LT(before, 5'000'000);
  bed->cut_off = {"gateway-b"};
  set_versions(before, 5'000'000);
  ticks(Seconds(5));
  EXPECT_GT(bed->objects.routes.version, 5'000'000);
  EXPECT_EQ(bed->objects.last_since, 0);
}

}  // namespace
}  // namespace sluice::control
