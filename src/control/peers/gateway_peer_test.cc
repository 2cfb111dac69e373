#include "control/peers/gateway_peer.h"

#include <gtest/gtest.h>

#include "control/local/cluster_local.h"
#include "tests/support/eventually.h"
#include "tests/support/folder.h"
#include "tests/support/peers.h"

namespace sluice::control {
namespace {

using nlohmann::json;

// A gateway of another version, or a proxy's answer in its place.
TEST(GatewayPeer, AnswersOfAnotherShapeCountAsNone) {
  const TemporaryFolder folder;
  std::mutex mutex;
  json says;
  const TestPeer gateway(folder.path + "/gateway.sock", [&](const wire::HttpRequest&) {
    const std::lock_guard lock(mutex);
    return wire::json_response(says);
  });
  LocalCluster cluster(folder.path + "/node.sock", folder.path + "/gateway.sock");
  const auto seen = [&] {
    cluster.poll();
    EXPECT_TRUE(eventually("answers", [&] { return cluster.settled(); }));
    return cluster.observe().gateways.at(0).seen;
  };
  for (const json& odd : {json(), json::array(), json("page"), json{{"started", "soon"}}}) {
    {
      const std::lock_guard lock(mutex);
      says = odd;
    }
    EXPECT_EQ(seen(), 0) << odd;
  }
  {
    const std::lock_guard lock(mutex);
    says = {{"started", 5}, {"told", 1}};
  }
  EXPECT_TRUE(eventually("it answers", [&] { return seen() > 0; }));
}

}  // namespace
}  // namespace sluice::control
