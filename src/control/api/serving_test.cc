// Ticks, the API and a training job over a cluster in memory of several nodes and gateways, in
// virtual time: no adapter of this machine has a part in it.
#include "control/api/serving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "control/api/metrics.h"
#include "control/desired_memory.h"
#include "control/journal_memory.h"
#include "predict/profile_table.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/fake_training.h"

namespace sluice::control {
namespace {

namespace asio = boost::asio;
using nlohmann::json;
using wire::http::verb;

constexpr const char* kFunction = R"(
apiVersion: sluice.dev/v1alpha1
kind: InferenceFunction
metadata: {name: f}
spec:
  model: {path: /models/m.pt}
  minReplicas: 3
  slice: {sm: 100%, quota: {request: 60%}}
)";
constexpr const char* kJob = R"(
apiVersion: sluice.dev/v1alpha1
kind: TrainingFunction
metadata: {name: j}
spec: {command: [/bin/true], length: 2, mostDevices: 2}
)";

constexpr const char* kProgramWithMetrics = R"(
apiVersion: sluice.dev/v1alpha1
kind: InferenceFunction
metadata: {name: p, namespace: team}
spec:
  server: {command: [/bin/server], metrics: /metrics}
  slice: {sm: 100%, quota: {request: 20%}}
)";

// Models that are everywhere, by name.
class NamedModels : public Models {
 public:
  ModelSpec for_start(const ModelSpec& model) const override { return model; }
  std::string for_user(std::string error, const ModelSpec&) const override { return error; }
  Result<void> check(ModelSpec&) const override { return {}; }
  Result<void> identify(ModelSpec& model) const override {
    return model.content = "c", Result<void>();
  }
  Result<Hold> keep(ModelSpec& model) override {
    SLUICE_TRY(identify(model));
    return Hold();
  }
  void set_used(std::set<std::string>) override {}
  void sweep() override {}
  void stop() override {}
};

class ServingOverMemory : public testing::Test {
 protected:
  ServingOverMemory() {
    cluster.devices.clear();
    for (const char* node : {"a", "b", "c"}) cluster.add_node(node);
    cluster.add_gateway("gateway-b");
    cluster.start_takes = cluster.drain_takes = Seconds(1);
    asio::co_spawn(io, serving.run_ticks(), [](std::exception_ptr broken) {
      if (broken) std::rethrow_exception(broken);
    });
  }

  wire::HttpResponse ask(verb method, const std::string& target, const std::string& body = "",
                         unsigned status = 200) {
    wire::HttpRequest request(method, target, 11);
    request.body() = body;
    std::optional<wire::HttpResponse> response;
    asio::co_spawn(io, serving.answer(api, std::move(request)),
                   [&](std::exception_ptr broken, wire::HttpResponse answer) {
                     if (broken) std::rethrow_exception(broken);
                     response = std::move(answer);
                   });
    while (!response) io.run_one();
    EXPECT_EQ(response->result_int(), status) << response->body();
    return std::move(*response);
  }
  json get(const std::string& target) { return json::parse(ask(verb::get, target).body()); }
  json job() { return get("/v1/functions/default/j").at("job"); }
  void pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      clock.advance(Seconds(1));
      ask(verb::post, "/v1/turns");
    }
  }
  // Returns the nodes of the function's ready instances, in order.
  std::string nodes_of(const std::string& function) {
    std::string nodes;
    for (const json& row : get("/v1/instances"))
      if (row.at("function") == "default/" + function && row.at("state") == "ready")
        nodes += row.at("device").get<std::string>().front();
    std::ranges::sort(nodes);
    return nodes;
  }

  asio::io_context io{1};
  ManualClock clock;
  FakeCluster cluster{clock};
  FakeTraining training{cluster, clock};
  MemoryDesiredState desired;
  MemoryJournal journal;
  predict::ProfileTable predictor;
  NamedModels models;
  const std::unique_ptr<Control> control = std::move(*Control::open(
      {desired, journal, cluster, predictor, clock, &training, &models}, {.bundle = "fixed"}));
  Serving serving{io, *control, cluster, models};
  Api api{*control, "", ""};
};

TEST_F(ServingOverMemory, APrometheusFindsTheReadyInstancesThatHaveMetrics) {
  ask(verb::post, "/v1/functions", kFunction);
  ask(verb::post, "/v1/functions", kProgramWithMetrics);
  EXPECT_EQ(get("/v1/metrics/targets"), json::array()) << "none is ready";
  pass(4);
  json expected = json::array();
  for (ObservedInstance& o : cluster.seen.instances) {
    if (o.instance.function.name != "p") continue;
    o.address = "127.0.0.1:41233";
    expected.push_back({{"targets", json::array({o.address})},
                        {"labels",
                         {{"__metrics_path__", "/metrics"},
                          {"namespace", "team"},
                          {"function", "p"},
                          {"revision", "1"},
                          {"instance", o.instance.id},
                          {"device", o.instance.device()}}}});
  }
  ASSERT_EQ(expected.size(), 1u);
  pass(1);
  EXPECT_EQ(get("/v1/metrics/targets"), expected);
  ASSERT_EQ(cluster.pages.size(), 1u);
  EXPECT_EQ(cluster.pages[0].address, "127.0.0.1:41233");
  EXPECT_EQ(cluster.pages[0].path, "/metrics");
  ask(verb::delete_, "/v1/functions/team/p");
  EXPECT_EQ(get("/v1/metrics/targets"), json::array()) << "it drains";
}

TEST_F(ServingOverMemory, AFolderThatNoTextCanNameIsRefusedByItsField) {
  for (const std::string key : {"home", "folder"})
    for (const std::string path : {"/a%ff", "/a%0Ab"}) {
      const auto refused =
          ask(verb::post, "/v1/functions?" + key + "=" + path, kFunction, 400).body();
      EXPECT_NE(refused.find(key + ": /a"), std::string::npos) << refused;
    }
  EXPECT_EQ(get("/v1/functions"), json::array());
}

TEST_F(ServingOverMemory, AFunctionsAlikeInstancesAreAGroup) {
  ask(verb::post, "/v1/functions", kFunction);
  pass(4);
  const json groups = get("/v1/functions/default/f").at("groups");
  ASSERT_EQ(groups.size(), 1u) << groups;
  EXPECT_EQ(groups[0]["instances"], 3);
  EXPECT_EQ(groups[0]["sm"], 1000);
  EXPECT_EQ(groups[0]["quota"], 600);
  EXPECT_EQ(groups[0]["latency_ms"], 0);
  const std::string type = groups[0]["type"];
  const std::string labels = "{namespace=\"default\",function=\"f\",revision=\"1\",type=\"" + type +
                             "\",sm=\"1\",quota=\"0.6\",batch=\"1\"}";
  const std::string text = metrics(*control);
  for (const std::string& line : {"sluice_group_instances" + labels + " 3\n",
                                  "sluice_group_requests_total" + labels + " 0\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_NE(text.find("sluice_group_request_bytes_bucket"), std::string::npos);
}

TEST_F(ServingOverMemory, AFunctionRunsOnNodesThatComeAndGo) {
  ask(verb::post, "/v1/functions", kFunction);
  pass(4);
  EXPECT_EQ(nodes_of("f"), "abc");
  for (const ObservedGateway& g : cluster.seen.gateways) EXPECT_GT(g.routes_version, 0) << g.name;
  EXPECT_EQ(get("/v1/devices").size(), 3u);

  cluster.remove_node("c");
  pass(2);
  EXPECT_EQ(nodes_of("f"), "ab");
  cluster.add_node("d");
  pass(4);
  EXPECT_EQ(nodes_of("f"), "abd");

  ask(verb::delete_, "/v1/functions/default/f");
  pass(4);
  EXPECT_TRUE(cluster.seen.instances.empty());
  EXPECT_TRUE(get("/v1/functions").empty());
}

TEST_F(ServingOverMemory, ABriefRowIsAPartOfTheWholeOne) {
  ask(verb::post, "/v1/functions", kFunction);
  ask(verb::post, "/v1/functions", kProgramWithMetrics);
  pass(4);
  const json whole = get("/v1/functions"), brief = get("/v1/functions?brief=1");
  ASSERT_EQ(whole.size(), 2u);
  ASSERT_EQ(brief.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    for (const auto& [key, value] : brief[i].items()) {
      if (key != "last_decision") {
        EXPECT_EQ(value, whole[i].at(key)) << key;
      }
    }
    EXPECT_EQ(brief[i]["last_decision"]["summary"], whole[i]["last_decision"]["summary"]);
    EXPECT_FALSE(brief[i].contains("file"));
  }
  EXPECT_EQ(brief[0]["replicas"]["ready"], 3);
  const json alone = get("/v1/functions/default/f");
  for (const auto& [key, value] : whole[0].items()) {
    if (key != "age_ms") {
      EXPECT_EQ(value, alone.at(key)) << key;
    }
  }
}

TEST_F(ServingOverMemory, DecisionsAfterANumber) {
  ask(verb::post, "/v1/functions", kFunction);
  pass(4);
  const json all = get("/v1/decisions?limit=100");
  ASSERT_GT(all.size(), 3u);
  const auto newest = all[0]["number"].get<int64_t>();
  const auto after = [&](int64_t number) {
    return get("/v1/decisions?limit=100&after=" + std::to_string(number));
  };
  EXPECT_EQ(after(newest), json::array());
  EXPECT_EQ(after(newest + 5), json::array());
  EXPECT_EQ(after(newest - 2), json::array({all[0], all[1]}));
  EXPECT_EQ(after(0), all);
  EXPECT_EQ(get("/v1/decisions?limit=1&after=0"), json::array({all[0]}));
}

TEST_F(ServingOverMemory, ATrainingJobRunsToItsEnd) {
  ask(verb::post, "/v1/functions", kJob);
  EXPECT_EQ(job().at("state"), "queued");
  pass(3);
  EXPECT_EQ(job().at("state"), "running");
  EXPECT_EQ(job().at("samples"), 200);
  pass(2);
  EXPECT_GT(job().at("done"), 0);
  pass(8);
  EXPECT_EQ(job().at("state"), "finished");
  EXPECT_EQ(job().at("done"), 200);
  EXPECT_EQ(training.most_workers({.name = "j"}), 2);
  pass(2);
  EXPECT_TRUE(cluster.seen.instances.empty()) << "its workers have ended";
}

TEST_F(ServingOverMemory, OrdersThatTakeLongAreGivenOnce) {
  cluster.starts_take = Seconds(6);
  ask(verb::post, "/v1/functions", kFunction);
  pass(5);
  EXPECT_TRUE(cluster.seen.instances.empty());
  pass(5);
  EXPECT_EQ(nodes_of("f"), "abc");
  EXPECT_EQ(cluster.starts, 3);
}

// The poll of each tick is answered by another thread.
TEST_F(ServingOverMemory, ATickTakesAnswersThatComeFromElsewhere) {
  pass(1);
  cluster.slow = true;
  std::jthread elsewhere([&](const std::stop_token& end) {
    while (!end.stop_requested()) {
      if (!cluster.settled()) cluster.answer();
      std::this_thread::yield();
    }
  });
  ask(verb::post, "/v1/functions", kFunction);
  pass(4);
  EXPECT_EQ(nodes_of("f"), "abc");
}

}  // namespace
}  // namespace sluice::control
