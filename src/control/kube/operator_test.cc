// The operator between a stand-in for the API server and one for the controller's own API.
#include "control/kube/operator.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/folder.h"
#include "tests/support/kube_client.h"

namespace sluice::control {
namespace {

using nlohmann::json;
using wire::http::verb;

// Functions by name, as the controller's API answers of them. A specification that says "bad" is
// refused.
class OwnApi {
 public:
  explicit OwnApi(const std::string& socket)
      : server_(io_, wire::listen_on({.path = socket}).value(),
                [this](wire::HttpRequest r) -> wire::asio::awaitable<wire::HttpResponse> {
                  co_return answer(r);
                }),
        thread_([this] { io_.run(); }) {}
  ~OwnApi() {
    io_.stop();
    thread_.join();
  }

  std::vector<std::string> calls() {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }
  void decide(const std::string& function, const std::string& action) {
    const std::lock_guard lock(mutex_);
    decisions_.insert(decisions_.begin(), json{{"number", ++last_},
                                               {"at", 1000},
                                               {"function", function},
                                               {"action", action},
                                               {"summary", "did " + action},
                                               {"reason", {{"text", "because"}}},
                                               {"fault", ""}});
  }
  void set_ready(const std::string& name, int ready) {
    const std::lock_guard lock(mutex_);
    rows_[name]["replicas"]["ready"] = ready;
  }

 private:
  wire::HttpResponse answer(const wire::HttpRequest& request) {
    const std::lock_guard lock(mutex_);
    const wire::Target target = wire::parse_target(request.target()).value();
    const std::string& kind = target.path[1];
    if (kind == "decisions") return wire::json_response(decisions_);
    if (request.method() == verb::get) {
      json all = json::array();
      for (const auto& [name, row] : rows_) all.push_back(row);
      return wire::json_response(all);
    }
    if (request.method() == verb::delete_) {
      calls_.push_back("delete " + target.path[3]);
      rows_.erase(target.path[3]);
      return wire::json_response(json::object());
    }
    const json file = json::parse(request.body());
    const std::string name = file["metadata"]["name"];
    calls_.push_back("apply " + name);
    if (file["spec"].contains("bad"))
      return wire::error_response(400, name + ":3 spec.bad: is not allowed");
    const int revision = rows_.contains(name) ? rows_[name]["revision"].get<int>() + 1 : 1;
    rows_[name] = {{"namespace", file["metadata"]["namespace"]},
                   {"name", name},
                   {"revision", revision},
                   {"serving", revision},
                   {"replicas", {{"ready", 1}, {"starting", 0}, {"min", 1}}}};
    return wire::json_response(json::object());
  }

  std::mutex mutex_;
  std::map<std::string, json> rows_;
  std::vector<json> decisions_;
  std::vector<std::string> calls_;
  int64_t last_ = 0;
  wire::asio::io_context io_{1};
  wire::HttpServer server_;
  std::thread thread_;
};

class OperatorTest : public KubeClientTest {
 protected:
  OperatorTest() {
    for (auto* informer : {&functions_, &trainings_}) spawn(informer->run());
    spawn(writer_.run());
    EXPECT_TRUE(
        eventually("the lists", [&] { return functions_.synced() && trainings_.synced(); }));
  }

  void apply(const std::string& name, json spec) {
    const json object = server_.put(
        kFunctionsPath,
        {{"metadata", {{"namespace", "default"}, {"name", name}}}, {"spec", std::move(spec)}});
    EXPECT_TRUE(eventually("the copy has it", [&] {
      const auto seen = functions_.find({"default", name});
      return seen && seen->generation == object["metadata"]["generation"];
    }));
  }
  void turn(Operator& it) {
    it.turn(wall_ += 1000);
    EXPECT_TRUE(eventually("all is written", [&] { return writer_.waiting() == 0; }));
  }
  void turn() { turn(*operator_); }
  json status(const std::string& name, const char* collection = kFunctionsPath) {
    return (*server_.get(collection, "default", name)).value("status", json::object());
  }
  std::string condition(const std::string& name, const std::string& type) {
    const json now = status(name);
    for (const json& c : now.value("conditions", json::array()))
      if (c["type"] == type)
        return c["status"].get<std::string>() + " " + c["reason"].get<std::string>();
    return "none";
  }
  std::unique_ptr<Operator> make() {
    return std::make_unique<Operator>(wire::Endpoint{.path = socket_}, functions_, trainings_,
                                      writer_);
  }

  TemporaryFolder folder_;
  const std::string socket_ = folder_.path + "/api.sock";
  OwnApi api_{socket_};
  Operator::Functions functions_{*client_, kFunctionsPath}, trainings_{*client_, kTrainingPath};
  ObjectWriter writer_{*client_, [] { return true; }};
  std::unique_ptr<Operator> operator_ = make();
  UnixMillis wall_ = 1'000'000;
};

using Calls = std::vector<std::string>;

TEST_F(OperatorTest, AnObjectIsAppliedOnceForEachOfItsGenerations) {
  apply("f", {{"a", 1}});
  turn();
  turn();
  EXPECT_EQ(api_.calls(), Calls{"apply f"});
  EXPECT_EQ(condition("f", "Ready"), "True Serving");
  EXPECT_EQ(status("f")["observedGeneration"], 1);
  apply("f", {{"a", 2}});
  turn();
  EXPECT_EQ(api_.calls(), Calls{"apply f"});
  EXPECT_EQ(status("f")["newest"], 2);
}

TEST_F(OperatorTest, ARefusalIsAConditionAndAnEvent) {
  apply("f", {{"bad", true}});
  turn();
  EXPECT_EQ(condition("f", "Ready"), "False Refused");
  EXPECT_EQ(condition("f", "Degraded"), "True Refused");
  ASSERT_EQ(server_.all("/api/v1/events").size(), 1u);
  const json event = server_.all("/api/v1/events")[0];
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["message"], "spec.bad: is not allowed");
  apply("f", {{"bad", nullptr}, {"good", true}});
  turn();
  EXPECT_EQ(condition("f", "Ready"), "True Serving");
  EXPECT_EQ(condition("f", "Degraded"), "False AsExpected");
}

TEST_F(OperatorTest, ARefusalThatStaysIsTriedAgainAndIsOneEvent) {
  apply("f", {{"bad", true}});
  for (int second = 0; second < 130; ++second) turn();
  EXPECT_EQ(api_.calls(), Calls(8, "apply f")) << "at 0, 1, 3, 7, 15, 31, 63 and 123 s";
  EXPECT_EQ(server_.all("/api/v1/events").size(), 1u);
}

TEST_F(OperatorTest, ADeletedObjectsFunctionIsDeleted) {
  apply("f", {{"a", 1}});
  apply("g", {{"a", 1}});
  turn();
  api_.calls();
  server_.remove(kFunctionsPath, "default", "f");
  EXPECT_TRUE(eventually("f is gone", [&] { return functions_.all().size() == 1; }));
  turn();
  EXPECT_EQ(api_.calls(), Calls{"delete f"});
}

TEST_F(OperatorTest, TheNextOneAppliesNothingAgainThatWasAccepted) {
  apply("f", {{"a", 1}});
  apply("g", {{"bad", 1}});
  turn();
  api_.calls();
  EXPECT_TRUE(eventually("the copy has both statuses", [&] {
    return functions_.find({"default", "f"})->observed_generation() == 1 &&
           functions_.find({"default", "g"})->observed_generation() == 1;
  }));
  const auto next = make();
  turn(*next);
  EXPECT_EQ(api_.calls(), Calls{"apply g"});
}

TEST_F(OperatorTest, AnEventForEachDecisionSinceItsStart) {
  api_.decide("default/f", "start");
  apply("f", {{"a", 1}});
  turn();
  EXPECT_TRUE(server_.all("/api/v1/events").empty());
  api_.decide("default/f", "resize");
  api_.decide("default/unknown", "stop");
  turn();
  turn();
  ASSERT_EQ(server_.all("/api/v1/events").size(), 1u);
  const json event = server_.all("/api/v1/events")[0];
  EXPECT_EQ(event["reason"], "Resize");
  EXPECT_EQ(event["involvedObject"]["name"], "f");
  EXPECT_EQ(event["involvedObject"]["uid"],
            (*server_.get(kFunctionsPath, "default", "f"))["metadata"]["uid"]);
}

// A user's edit of a status does not stay, and an instance that has gone shows.
TEST_F(OperatorTest, AStatusIsWrittenWhenItHasChangedAndNoMore) {
  apply("f", {{"a", 1}});
  turn();
  turn();
  const std::string version =
      (*server_.get(kFunctionsPath, "default", "f"))["metadata"]["resourceVersion"];
  for (int i = 0; i < 5; ++i) turn();
  EXPECT_EQ((*server_.get(kFunctionsPath, "default", "f"))["metadata"]["resourceVersion"], version);
  json edited = *server_.get(kFunctionsPath, "default", "f");
  edited["status"]["ready"] = 77;
  server_.put(kFunctionsPath, edited);
  EXPECT_TRUE(eventually("the copy has the edit", [&] {
    return functions_.find({"default", "f"})->status["ready"] == 77;
  }));
  api_.set_ready("f", 0);
  turn();
  EXPECT_EQ(status("f")["ready"], 0);
  EXPECT_EQ(condition("f", "Ready"), "False Starting");
}

TEST_F(OperatorTest, AStatusThatIsRefusedIsNotWrittenAtEachTurn) {
  server_.refuse(
      [](const std::string& method, const std::string&) { return method == "PATCH" ? 403 : 0; });
  apply("f", {{"a", 1}});
  for (int i = 0; i < 9; ++i) turn();
  const auto writes = [&] {
    int count = 0;
    for (const std::string& c : server_.calls()) count += c.starts_with("PATCH");
    return count;
  };
  EXPECT_EQ(writes(), 1);
  server_.refuse({});
  for (int i = 0; i < 9; ++i) turn();
  EXPECT_EQ(condition("f", "Ready"), "True Serving");
}

TEST_F(OperatorTest, ATrainingFunctionSaysThatItIsNotRun) {
  server_.put(kTrainingPath, {{"kind", "TrainingFunction"},
                              {"metadata", {{"namespace", "default"}, {"name", "t"}}},
                              {"spec", {{"samples", 5}}}});
  EXPECT_TRUE(eventually("t is listed", [&] { return trainings_.all().size() == 1; }));
  turn();
  const json s = status("t", kTrainingPath);
  EXPECT_EQ(s["conditions"][0]["status"], "False");
  EXPECT_NE(s["conditions"][0]["message"].get<std::string>().find("not run"), std::string::npos);
}

}  // namespace
}  // namespace sluice::control
