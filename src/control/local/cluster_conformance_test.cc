// The behaviour of every adapter of the cluster port: one suite, run against the cluster in memory
// (of one node and one gateway, and of several), against the local adapter, whose node daemon and
// gateway serve a cluster in memory, and against that of Kubernetes over the same.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>

#include "control/local/cluster_local.h"
#include "tests/support/eventually.h"
#include "tests/support/folder.h"
#include "tests/support/kube_bed.h"
#include "tests/support/peers.h"

namespace sluice::control {
namespace {

const FunctionName kF{.name = "f"};
constexpr const char* kNode = "node-a";
constexpr const char* kGateway = LocalCluster::kGateway;

class ClusterConformance : public testing::TestWithParam<const char*> {
 protected:
  ClusterConformance() {
    for (Device& d : truth.devices) d.node = kNode;
    if (GetParam() == std::string_view("several")) {
      for (const char* node : {"node-b", "node-c"})
        truth.devices.push_back({.id = std::string(node) + "/cpu0", .node = node});
      truth.add_gateway("gateway-b");
    }
    if (GetParam() == std::string_view("kube")) make_kube();
    if (GetParam() != std::string_view("local")) return;
    const std::string& dir = folder.path;
    node.emplace(dir + "/node.sock", [this](const wire::HttpRequest& request) {
      const std::lock_guard lock(mutex);
      return node_answer(truth, request);
    });
    gateway.emplace(dir + "/gateway.sock", [this](const wire::HttpRequest& request) {
      const std::lock_guard lock(mutex);
      return gateway_answer(truth, request);
    });
    remote = std::make_unique<LocalCluster>(dir + "/node.sock", dir + "/gateway.sock");
  }
  void make_kube() {
    for (Device& d : truth.devices) d.id = std::string(kNode) + "/" + d.id;
    bed.emplace(truth, mutex);
    remote = bed->controller();
  }

  Cluster& port() { return remote ? *remote : truth; }
  // Returns the id of a device of the first node.
  DeviceId device(const char* name) const {
    return bed ? std::string(kNode) + "/" + name : std::string(name);
  }
  // Changes the cluster.
  template <class Change>
  void in_cluster(const Change& change) {
    const std::lock_guard lock(mutex);
    change(truth);
  }
  void node_goes() { comes(node_peer(), kNode, false); }
  void node_comes() { comes(node_peer(), kNode, true); }
  void gateway_goes() { comes(gateway_peer(), kGateway, false); }
  void gateway_comes() { comes(gateway_peer(), kGateway, true); }
  TestPeer* node_peer() { return bed ? bed->agents.at(kNode).get() : node ? &*node : nullptr; }
  TestPeer* gateway_peer() {
    return bed ? bed->gateways.at(kGateway).get() : gateway ? &*gateway : nullptr;
  }
  // `peer`: null in memory.
  void comes(TestPeer* peer, const char* name, bool there) {
    if (peer == nullptr)
      there ? (void)truth.away.erase(name) : (void)truth.away.insert(name);
    else
      there ? peer->come() : peer->go();
  }

  Observation observe() {
    if (!remote) return truth.observe();
    remote->poll();
    EXPECT_TRUE(eventually("answers", [&] { return remote->settled(); }));
    return remote->observe();
  }
  template <class Seen>
  void sees(std::string_view what, const Seen& seen) {
    EXPECT_TRUE(eventually(what, [&] { return seen(observe()); }));
  }
  // Orders may be given up on a busy machine, and repeated.
  template <class Give>
  void order(std::string_view what, const Give& give) {
    EXPECT_TRUE(eventually(what, [&] { return observe(), give().ok(); }));
  }
  void starts(const InstanceId& id) {
    order("a start", [&] { return port().start(start_of(id)); });
  }
  Part part_on(const char* name, int request, int time_begin = 0) const {
    return {device(name),
            {.sm = kWhole, .quota = {{request}, {request}}},
            {.time_begin = {time_begin}}};
  }
  StartOrder start_of(const InstanceId& id) const { return start_of(id, {part_on("cpu0", 300)}); }
  static StartOrder start_of(const InstanceId& id, const Parts& parts) {
    return {.instance = {.id = id, .function = kF, .revision = 1, .parts = parts}};
  }
  void sees_parts(const InstanceId& id, const Parts& parts) {
    sees("its parts", [&](const Observation& o) {
      const ObservedInstance* i = find(o.instances, id);
      return i != nullptr && i->instance.parts == parts;
    });
  }
  void sees_state(const InstanceId& id, InstanceState state) {
    sees("its state", [&](const Observation& o) {
      const ObservedInstance* i = find(o.instances, id);
      return i != nullptr && i->instance.state == state && i->node == kNode;
    });
  }
  static bool node_there(const Observation& o) {
    const ObservedNode* n = find_node(o, kNode);
    return n != nullptr && n->node.reachable;
  }
  static const ObservedGateway& first_gateway(const Observation& o) { return o.gateways.at(0); }

  const TemporaryFolder folder;
  ManualClock clock;
  std::mutex mutex;
  FakeCluster truth{clock};
  std::optional<TestPeer> node, gateway;
  std::optional<KubeBed> bed;
  std::unique_ptr<Cluster> remote;
};
INSTANTIATE_TEST_SUITE_P(Adapters, ClusterConformance,
                         testing::Values("memory", "several", "local", "kube"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ClusterConformance, NodesNameTheirDevicesAndDevicesTheirNode) {
  sees("the node", node_there);
  const std::vector<DeviceId> both{device("cpu0"), device("cpu1")};
  sees("the devices", [&](const Observation& o) {
    const ObservedNode* n = find_node(o, kNode);
    return n != nullptr && n->node.devices == both && n->node.boot_id == "boot" &&
           find(o.devices, both[1])->node == kNode;
  });
}

TEST_P(ClusterConformance, AStartIsIdempotentAndComesUpLater) {
  starts("i");
  starts("i");
  sees_state("i", InstanceState::kStarting);
  in_cluster([](FakeCluster& c) { EXPECT_EQ(c.seen.instances.size(), 1u); });
  in_cluster([](FakeCluster& c) { c.all(InstanceState::kStarting, InstanceState::kReady); });
  sees_state("i", InstanceState::kReady);
}

TEST_P(ClusterConformance, AResizeShowsInObservations) {
  starts("i");
  const Parts changed{part_on("cpu0", 500, 100)};
  order("a resize", [&] { return port().resize("i", changed); });
  sees_parts("i", changed);
}

TEST_P(ClusterConformance, SeveralPartsStartAndResizeTogether) {
  const Parts both{part_on("cpu0", 300), part_on("cpu1", 200)};
  order("a start", [&] { return port().start(start_of("i", both)); });
  sees_parts("i", both);
  const Parts changed{part_on("cpu0", 100), part_on("cpu1", 600, 100)};
  order("a resize", [&] { return port().resize("i", changed); });
  sees_parts("i", changed);
  sees("that a part cannot be left out",
       [&](const Observation&) { return !port().resize("i", {part_on("cpu0", 300)}).ok(); });
  sees_parts("i", changed);
}

TEST_P(ClusterConformance, AStopEndsLaterAndAnotherForgetsIt) {
  starts("i");
  order("a stop", [&] { return port().stop("i", Seconds(30)); });
  sees_state("i", InstanceState::kDraining);
  in_cluster([](FakeCluster& c) { c.all(InstanceState::kDraining, InstanceState::kGone); });
  sees_state("i", InstanceState::kGone);
  sees("nothing of it", [&](const Observation&) {
    (void)port().stop("i", Nanos(0));
    return find(observe().instances, "i") == nullptr;
  });
}

TEST_P(ClusterConformance, WhatDoesNotExistIsNotFound) {
  const auto not_found = [](const auto& outcome) {
    return !outcome.ok() && outcome.error().kind == ErrorKind::kNotFound;
  };
  sees("errors", [&](const Observation&) {
    return not_found(port().stop("nothing", Nanos(0))) &&
           not_found(port().resize("nothing", {part_on("cpu0", 300)})) &&
           not_found(port().set_routes("no gateway", {.version = 1}));
  });
}

TEST_P(ClusterConformance, ANodeThatIsAwayIsListedAndWhatItHoldsIsUnknown) {
  starts("i");
  sees_state("i", InstanceState::kStarting);
  node_goes();
  sees("that it is away", [&](const Observation& o) {
    const ObservedNode* n = find_node(o, kNode);
    return n != nullptr && !n->node.reachable && n->node.boot_id == "boot" && n->seen > 0 &&
           n->node.devices.size() == 2 && find(o.instances, "i") == nullptr &&
           find(o.devices, device("cpu0")) == nullptr && all_gateways_there(o);
  });
  observe();
  const auto refused = port().start(start_of("j"));
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(refused.error().kind == ErrorKind::kUnavailable ||
              refused.error().kind == ErrorKind::kTimeout)
      << refused.error().message;
  EXPECT_FALSE(port().stop("i", Nanos(0)).ok());
  node_comes();
  sees_state("i", InstanceState::kStarting);
  sees("that it is back", node_there);
}

TEST_P(ClusterConformance, ARebootedNodeHasAnotherBootIdAndNothingOfBefore) {
  starts("i");
  node_goes();
  sees("that it is away", [](const Observation& o) { return !node_there(o); });
  in_cluster([](FakeCluster& c) { c.reboot(kNode); });
  node_comes();
  sees("another boot", [](const Observation& o) {
    const ObservedNode* n = find_node(o, kNode);
    return node_there(o) && n->node.boot_id != "boot" && find(o.instances, "i") == nullptr;
  });
}

TEST_P(ClusterConformance, ACordonedDeviceIsDrained) {
  for (const bool drained : {true, false}) {
    order("a cordon", [&] { return port().set_drained(device("cpu1"), drained); });
    sees("it", [&](const Observation& o) {
      const Device* d = find(o.devices, device("cpu1"));
      return d != nullptr && d->drained == drained;
    });
  }
}

TEST_P(ClusterConformance, AGatewayThatIsAwayIsListedAndItsTrafficIsUnknown) {
  in_cluster([](FakeCluster& c) { c.load[kF] = 100; });
  observe();
  clock.advance(Seconds(1));
  uint64_t requests = 0;
  sees("its traffic", [&](const Observation& o) {
    const ObservedGateway& g = first_gateway(o);
    if (g.there && !g.traffic.empty()) requests = std::max(requests, g.traffic[0].requests);
    return requests > 0;
  });
  gateway_goes();
  sees("that it is away", [](const Observation& o) {
    const ObservedGateway& g = first_gateway(o);
    return g.name == kGateway && !g.there && g.traffic.empty() && node_there(o);
  });
  EXPECT_FALSE(port().set_routes(kGateway, {.version = 1}).ok());
  gateway_comes();
  sees("its traffic again", [&](const Observation& o) {
    const ObservedGateway& g = first_gateway(o);
    return g.there && !g.traffic.empty() && g.traffic[0].requests >= requests;
  });
}

TEST_P(ClusterConformance, AGatewayHasTheRoutesThatItWasGivenUntilItRestarts) {
  starts("i");
  in_cluster([](FakeCluster& c) { c.held.insert(kF); });
  RoutingTable table{.version = 6};
  std::set<InstanceId> busy;
  order("routes", [&]() -> Result<void> {
    ++table.version;
    SLUICE_ASSIGN(now, port().set_routes(kGateway, table));
    busy = now;
    return {};
  });
  EXPECT_EQ(busy, std::set<InstanceId>{"i"});
  UnixMillis started = 0;
  sees("its version", [&](const Observation& o) {
    started = first_gateway(o).started;
    return first_gateway(o).there && first_gateway(o).routes_version == table.version &&
           first_gateway(o).busy == busy;
  });
  in_cluster([](FakeCluster& c) { c.restart_gateway(); });
  sees("none", [&](const Observation& o) {
    const ObservedGateway& g = first_gateway(o);
    return g.there && g.started != started && g.routes_version < table.version;
  });
}

}  // namespace
}  // namespace sluice::control
