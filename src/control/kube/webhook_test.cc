// The webhook's server, asked as the API server asks it.
#include "control/kube/webhook.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>

#include "control/kube/pod_annotations.h"
#include "tests/support/eventually.h"
#include "tests/support/folder.h"
#include "tests/support/kube_client.h"

namespace sluice::control {
namespace {

using nlohmann::json;

class WebhookTest : public KubeClientTest {
 protected:
  WebhookTest() {
    boost::asio::post(io_, [this] { webhook_.run(); });
    EXPECT_TRUE(eventually("it follows", [&] { return server_.calls().size() >= 4; }));
  }

  static json pod(const std::string& quota) {
    return {{"metadata", {{"namespace", "team"}, {"annotations", {{kQuotaAnnotation, quota}}}}},
            {"spec", {{"containers", json::array({{{"name", "a"}}})}}}};
  }
  bool admits(const std::string& quota, bool dry = false) {
    const json review{{"request",
                       {{"uid", "u"},
                        {"namespace", "team"},
                        {"operation", "CREATE"},
                        {"dryRun", dry},
                        {"object", pod(quota)}}}};
    wire::HttpClient client(at_);
    const auto answer = client.json(wire::http::verb::post, "/admit", review);
    EXPECT_TRUE(answer.ok());
    return answer.ok() && (*answer)["response"]["allowed"].get<bool>();
  }
  // As the API server stores what was let through.
  void arrives(const std::string& name, const std::string& quota) {
    json made = pod(quota);
    made["metadata"]["name"] = name;
    made["metadata"]["labels"] = {{kSlicedLabel, "true"}};
    server_.put("/api/v1/pods", made);
  }

  const TemporaryFolder folder_;
  const wire::Endpoint at_{.path = folder_.path + "/webhook.sock"};
  const json team_ = server_.put(
      "/api/v1/namespaces",
      {{"metadata", {{"name", "team"}, {"annotations", {{"sluice.dev/most-quota", "90%"}}}}}});
  ManualClock clock_;
  Webhook webhook_{*client_, wire::listen_on(at_).value(), {}, clock_};
};

// Whoever reaches its port may ask, without a certificate.
TEST_F(WebhookTest, ADeepReviewIsRefused) {
  wire::HttpClient client(at_);
  const std::string deep = R"({"request":{"object":)" + std::string(2'000'000, '[');
  const auto answer = client.call(wire::http::verb::post, "/admit", deep);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->result_int(), 400);
  EXPECT_TRUE(admits("30%"));
}

// A ReplicaSet makes many before the first of them is seen by a watch.
TEST_F(WebhookTest, PodsThatComeAtOnceAreBoundedTogether) {
  EXPECT_TRUE(admits("30%", true));
  EXPECT_TRUE(admits("30%"));
  EXPECT_TRUE(admits("40%"));
  EXPECT_FALSE(admits("30%"));
  arrives("a", "30%");
  arrives("b", "40%");
  arrives("c", "10%");
  ASSERT_TRUE(eventually("all three are seen", [&] { return !admits("20%", true); }));
  EXPECT_TRUE(admits("10%")) << "none counts twice";
}

TEST_F(WebhookTest, APodThatWasLetThroughAndNotMadeIsForgotten) {
  EXPECT_TRUE(admits("90%"));
  EXPECT_FALSE(admits("10%"));
  clock_.advance(Seconds(11));
  EXPECT_TRUE(admits("10%"));
}

TEST_F(WebhookTest, AReviewThatIsNoneIsAnError) {
  wire::HttpClient client(at_);
  for (const json& body : {json(), json(5), json{{"request", 5}}, json{{"request", {{"uid", 5}}}}})
    EXPECT_FALSE(client.json(wire::http::verb::post, "/admit", body).ok()) << body;
  EXPECT_TRUE(admits("30%"));
}

}  // namespace
}  // namespace sluice::control
