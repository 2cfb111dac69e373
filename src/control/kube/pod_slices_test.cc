// Annotations of Pods, carried to a stand-in for the agent's own API.
#include "control/kube/pod_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/eventually.h"
#include "tests/support/http.h"
#include "tests/support/kube_client.h"

namespace sluice::control {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;
using wire::http::verb;

constexpr const char* kPodsPath = "/api/v1/pods";

class PodSlicesTest : public KubeClientTest {
 protected:
  PodSlicesTest() {
    allow("team");
    spawn(pods_.run());
    spawn(spaces_.run());
    spawn(events_.run());
    EXPECT_TRUE(eventually("the lists", [&] { return pods_.synced() && spaces_.synced(); }));
  }

  void allow(const std::string& space) {
    server_.put("/api/v1/namespaces", {{"metadata", {{"name", space}}}});
  }
  // Returns its UID.
  std::string put(const std::string& name, const std::string& quota) {
    const json object = server_.put(
        kPodsPath,
        {{"metadata",
          {{"namespace", "team"}, {"name", name}, {"annotations", {{kQuotaAnnotation, quota}}}}},
         {"status", {{"phase", "Running"}}}});
    EXPECT_TRUE(eventually("the copy has it", [&] {
      const auto seen = pods_.find({"team", name});
      return seen && seen->annotations.at(kQuotaAnnotation) == quota;
    }));
    return object["metadata"]["uid"];
  }
  void remove(const std::string& name) {
    server_.remove(kPodsPath, "team", name);
    EXPECT_TRUE(eventually("the copy lacks it", [&] { return !pods_.find({"team", name}); }));
  }
  // Returns the calls that change something at the agent's.
  std::vector<std::string> turn(UnixMillis later = 1000) {
    slices_.turn(wall_ += later);
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }

  // Answers with this status from now on; 0: as it should.
  void set_refusing(int status) {
    const std::lock_guard lock(mutex_);
    refuses_ = status;
  }
  // The agent has lost its record: a resize finds nothing.
  void set_lost(bool lost) {
    const std::lock_guard lock(mutex_);
    has_lost_ = lost;
  }
  void agent_has(const std::string& id, bool foreign) {
    const std::lock_guard lock(mutex_);
    instances_.push_back({{"id", id}, {"foreign", foreign}});
  }

 private:
  wire::HttpResponse answer(const wire::HttpRequest& request) {
    const std::lock_guard lock(mutex_);
    if (refuses_ != 0) return wire::error_response(refuses_, "not now");
    if (request.method() == verb::get) return wire::json_response({{"instances", instances_}});
    calls_.push_back(std::string(request.method_string()) + " " + std::string(request.target()));
    if (has_lost_ && request.method() == verb::patch) return wire::error_response(404, "gone");
    return wire::json_response(json::object());
  }

  std::mutex mutex_;
  std::vector<std::string> calls_;
  json instances_ = json::array();
  int refuses_ = 0;
  bool has_lost_ = false;

 protected:
  wire::Serving api_{[this](wire::HttpRequest r) -> wire::asio::awaitable<wire::HttpResponse> {
    co_return answer(r);
  }};
  PodSlices::Pods pods_{*client_, kPodsPath};
  ObjectWriter events_{*client_, [] { return true; }};
  PodSlices::Spaces spaces_{*client_, "/api/v1/namespaces"};
  PodSlices slices_{api_.endpoint, pods_, spaces_, events_};
  UnixMillis wall_ = 1'000'000;
};

TEST_F(PodSlicesTest, ASliceIsTakenResizedAndGivenBack) {
  const std::string uid = put("p", "30%");
  EXPECT_THAT(turn(), ElementsAre("POST /v1/pods", "PATCH /v1/processes/pod-" + uid));
  EXPECT_THAT(turn(), IsEmpty());
  put("p", "40%");
  EXPECT_THAT(turn(), ElementsAre("PATCH /v1/processes/pod-" + uid));
  set_lost(true);
  put("p", "50%");
  EXPECT_THAT(turn(), testing::Contains("POST /v1/pods"));
  set_lost(false);
  remove("p");
  EXPECT_THAT(turn(), ElementsAre("DELETE /v1/instances/pod-" + uid));
  EXPECT_THAT(turn(), IsEmpty());
}

TEST_F(PodSlicesTest, AResizeThatFindsNoRoomIsTriedAgain) {
  const std::string uid = put("p", "30%"), resize = "PATCH /v1/processes/pod-" + uid;
  turn();
  put("p", "80%");
  set_refusing(409);
  turn();
  set_refusing(0);
  EXPECT_THAT(turn(), IsEmpty()) << "not each second";
  EXPECT_THAT(turn(5000), ElementsAre(resize));
  EXPECT_THAT(turn(5000), IsEmpty());
  put("p", "90%");
  set_refusing(503);
  turn();
  set_refusing(0);
  EXPECT_THAT(turn(), ElementsAre(resize)) << "the agent was not there";
}

// It has taken it for an earlier life of ours, with another share, and does not resize it.
TEST_F(PodSlicesTest, ASliceOfAnotherShareIsGivenBack) {
  set_lost(true);
  const std::string uid = put("p", "30%");
  EXPECT_THAT(turn(), ElementsAre("POST /v1/pods", "PATCH /v1/processes/pod-" + uid));
  remove("p");
  EXPECT_THAT(turn(), ElementsAre("DELETE /v1/instances/pod-" + uid));
}

TEST_F(PodSlicesTest, ASliceIsGivenBackOnceTheAgentAnswers) {
  const std::string uid = put("p", "30%");
  turn();
  remove("p");
  set_refusing(503);
  EXPECT_THAT(turn(), IsEmpty());
  set_refusing(0);
  EXPECT_THAT(turn(), ElementsAre("DELETE /v1/instances/pod-" + uid));
}

// Of another namespace no webhook has bounded them.
TEST_F(PodSlicesTest, OnlyPodsOfNamespacesThatMayHaveSlices) {
  const std::string uid = put("p", "30%");
  server_.remove("/api/v1/namespaces", "", "team");
  EXPECT_TRUE(eventually("it may not", [&] { return spaces_.all().empty(); }));
  EXPECT_THAT(turn(), IsEmpty());
  allow("team");
  EXPECT_TRUE(eventually("it may", [&] { return !spaces_.all().empty(); }));
  EXPECT_THAT(turn(), ElementsAre("POST /v1/pods", "PATCH /v1/processes/pod-" + uid));
}

// The agent was replaced, and a Pod was deleted meanwhile.
TEST_F(PodSlicesTest, SlicesThatAnEarlierLifeTookAreGivenBack) {
  const std::string uid = put("p", "30%");
  agent_has("pod-" + uid, true);
  agent_has("pod-gone", true);
  agent_has("pod-of-a-function", false);
  set_refusing(503);
  turn();
  set_refusing(0);
  EXPECT_THAT(turn(6000), testing::Contains("DELETE /v1/instances/pod-gone"));
  remove("p");
  EXPECT_THAT(turn(), ElementsAre("DELETE /v1/instances/pod-" + uid));
}

TEST_F(PodSlicesTest, AClockThatIsSetBackDelaysNoTry) {
  const std::string uid = put("p", "30%");
  set_refusing(429);
  turn();
  set_refusing(0);
  wall_ -= 3'600'000;
  EXPECT_THAT(turn(), ElementsAre("POST /v1/pods", "PATCH /v1/processes/pod-" + uid));
}

}  // namespace
}  // namespace sluice::control
