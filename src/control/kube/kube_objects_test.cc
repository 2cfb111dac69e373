// Pods, agents and routes as the cluster's adapter lists and writes them.
#include "control/kube/kube_objects.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>

#include "control/kube/route_objects.h"
#include "tests/support/eventually.h"
#include "tests/support/kube_client.h"

namespace sluice::control {
namespace {

using nlohmann::json;

json pod_object(const std::string& space, const std::string& name, json labels, json status) {
  return {{"metadata", {{"namespace", space}, {"name", name}, {"labels", std::move(labels)}}},
          {"spec", {{"nodeName", "node1"}}},
          {"status", std::move(status)}};
}

class KubeObjectsTest : public KubeClientTest {
 protected:
  void begin() {
    boost::asio::post(io_, [this] { objects_.run(); });
    ASSERT_TRUE(eventually("all is listed", [&] { return objects_.listed(); }));
  }
  static PodOrder order(const std::string& id) {
    return {.instance = {.id = id, .function = {"default", "f"}, .parts = {{"node1/cpu0", {}, {}}}},
            .birth = ForkOfTemplate{.model = {.path = "/models/m.pt"}},
            .node = "node1"};
  }

  KubeObjects objects_{*client_, {.pods = {.image = "sluice:dev"}}, [] { return true; }};
  kube::Informer<RouteObject> routes_{*client_, path_in(kRoutesPath, "sluice-system")};
};

TEST_F(KubeObjectsTest, ListsAgentsAlsoWhileNoneRuns) {
  const json labels{{"app.kubernetes.io/part-of", "sluice"},
                    {"app.kubernetes.io/name", "sluice-agent"}};
  server_.put("/api/v1/nodes",
              {{"metadata", {{"name", "node1"}, {"annotations", {{kDevicesAnnotation, "1"}}}}}});
  server_.put("/api/v1/nodes", {{"metadata", {{"name", "node2"}}}});
  server_.put("/api/v1/pods", pod_object("sluice-system", "agent-1", labels,
                                         {{"phase", "Running"}, {"podIP", "10.0.0.7"}}));
  begin();
  ASSERT_EQ(objects_.agents().size(), 1u);
  EXPECT_EQ(objects_.agents()[0].endpoint, "10.0.0.7:7443");
  server_.remove("/api/v1/pods", "sluice-system", "agent-1");
  EXPECT_TRUE(
      eventually("it has no endpoint", [&] { return objects_.agents()[0].endpoint.empty(); }));
  EXPECT_EQ(objects_.agents()[0].node, "node1");
}

TEST_F(KubeObjectsTest, MakesAndDeletesPods) {
  begin();
  objects_.make_pod(order("f-1-abc"));
  EXPECT_TRUE(eventually("it is there", [&] { return objects_.pods()->size() == 1; }));
  const InstancePod pod = objects_.pods()->front();
  EXPECT_EQ(pod.instance, "f-1-abc");
  EXPECT_EQ(pod.node, "node1") << "by its annotation: it is not bound yet";
  objects_.make_pod(order("f-1-abc"));  // again: no failure
  objects_.delete_pod("default", "f-1-abc", Seconds(3));
  EXPECT_TRUE(eventually("it is gone", [&] { return objects_.pods()->empty(); }));
  EXPECT_TRUE(objects_.take_failures().empty());
}

TEST_F(KubeObjectsTest, APodThatCannotBeMadeIsAFailure) {
  begin();
  server_.refuse([](const std::string& m, const std::string&) { return m == "POST" ? 403 : 0; });
  objects_.make_pod(order("f-1-abc"));
  std::vector<PodFailure> failures;
  EXPECT_TRUE(eventually("it fails", [&] {
    failures = objects_.take_failures();
    return !failures.empty();
  }));
  EXPECT_EQ(failures[0].instance, "f-1-abc");
  EXPECT_EQ(failures[0].kind, ErrorKind::kDenied);
}

TEST_F(KubeObjectsTest, GatewaysReadTheRoutesThatWereWritten) {
  begin();
  spawn(routes_.run());
  RoutingChange change{.version = 5};
  for (const char* name : {"a", "B_b"}) {
    FunctionRoute route{.name = {"default", name}};
    route.instances.push_back({.id = std::string(name) + "-1", .socket = "10.0.0.1:8080"});
    change.changed.emplace(served_name(route.name), route);
  }
  objects_.put_routes(change);
  const auto table = [&] { return table_of(routes_.all()); };
  EXPECT_TRUE(eventually("version 5", [&] { return table().ok() && table()->version == 5; }));
  EXPECT_EQ(table()->functions, change.changed);

  objects_.put_routes({.since = 5, .version = 6, .changed = {}, .removed = {{"default", "a"}}});
  EXPECT_TRUE(eventually("version 6", [&] { return table()->version == 6; }));
  EXPECT_EQ(table()->functions.size(), 1u);

  RoutingChange all{.version = 7};  // of a new loop that knows no function
  objects_.put_routes(all);
  EXPECT_TRUE(eventually("version 7", [&] { return table()->version == 7; }));
  EXPECT_TRUE(table()->functions.empty());
}

}  // namespace
}  // namespace sluice::control
