// The gateway's report of itself: JSON and metrics hold numbers in every state.
#include "gateway/admin.h"

#include <gmock/gmock.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <sstream>

#include "gateway/local_answers.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;
using wire::http::verb;

class AdminTest : public testing::Test {
 protected:
  json ask(verb method, const std::string& target, const std::string& body = "", int status = 200) {
    wire::HttpRequest request{method, target, 11};
    request.body() = body;
    json answer;
    boost::asio::io_context io;
    boost::asio::co_spawn(io, api.handle(request),
                          [&](std::exception_ptr fault, wire::HttpResponse r) {
                            EXPECT_FALSE(fault);
                            EXPECT_EQ(static_cast<int>(r.result_int()), status) << r.body();
                            answer = json::parse(r.body());
                          });
    io.run();
    return answer;
  }
  static void expect_numbers(const json& j, const std::string& where) {
    EXPECT_FALSE(j.is_null()) << where << ": NaN and infinity have no JSON";
    if (!j.is_structured()) return;
    for (const auto& [key, value] : j.items()) expect_numbers(value, where + "/" + key);
  }

  ManualClock clock;
  Dispatcher dispatcher;
  AdminApi api{dispatcher, clock, ""};
};

constexpr const char* kTable =
    R"({"version":3,"functions":[{"name":"default/f","slo_ms":10,"revisions":[{"number":1,"percent":100}],
        "instances":[{"id":"i","revision":1,"socket":"/s","capability":0}]}]})";

TEST_F(AdminTest, EveryFigureIsANumberEvenBeforeTheFirstRequest) {
  ask(verb::put, "/v1/routes", kTable);
  expect_numbers(ask(verb::get, "/v1/stats"), "stats");
  class Quiet : public Waiter {
    void on_granted() override {}
  } request;
  // All at one moment: durations, gaps and rates of zero.
  dispatcher.find(request, "f", 0, "");
  dispatcher.enter(request, clock.now(), clock.now());
  dispatcher.finish(request, Outcome::kOk, 0, clock.now());
  const json stats = ask(verb::get, "/v1/stats");
  expect_numbers(stats, "stats");
  EXPECT_EQ(stats["functions"][0]["ok"], 1);
  EXPECT_EQ(stats["busy"], json::array());

  const LocalAnswers local(dispatcher, "test");
  std::istringstream metrics(local.answer("GET", "/metrics", clock.now())->body);
  for (std::string line; std::getline(metrics, line);) {
    if (line.starts_with("#")) continue;
    EXPECT_THAT(line, testing::MatchesRegex("[a-z_]+\\{.*\\} [0-9.e+-]+"));
  }
}

TEST_F(AdminTest, AnInstanceIsReportedWithItsLateAnswersAndTheirDistribution) {
  ask(verb::put, "/v1/routes", kTable);
  class Quiet : public Waiter {
    void on_granted() override {}
  };
  EXPECT_FALSE(ask(verb::get, "/v1/stats")["functions"][0]["instances"][0].contains("latency_us"));
  for (const Nanos takes : {Millis(4), Millis(30)}) {
    Quiet request;
    request.body_bytes = 1000;
    dispatcher.find(request, "f", 0, "");
    dispatcher.enter(request, clock.now(), clock.now());
    clock.advance(takes);
    dispatcher.finish(request, Outcome::kOk, 0, clock.now());
  }
  const json instance = ask(verb::get, "/v1/stats")["functions"][0]["instances"][0];
  EXPECT_EQ(instance["answered"], 2);
  EXPECT_EQ(instance["late"], 1);
  EXPECT_EQ(instance["slow"], 1);
  EXPECT_EQ(instance["latency_us"]["sum_ns"], 34'000'000);
  EXPECT_EQ(instance["latency_us"]["buckets"].size(), 2u);
  EXPECT_EQ(instance["body_bytes"], json::parse(R"({"sum":2000,"buckets":[[10,2]]})"));
}

TEST_F(AdminTest, StatisticsSinceAnAnswerAreOfFunctionsThatChanged) {
  const auto names = [&](uint64_t since) {
    std::vector<std::string> all;
    const json answer = ask(verb::get, "/v1/stats?since=" + std::to_string(since));
    for (const json& f : answer["functions"]) all.push_back(f["name"]);
    return all;
  };
  class Quiet : public Waiter {
    void on_granted() override {}
  } request;
  using testing::ElementsAre;
  using testing::IsEmpty;
  ask(verb::put, "/v1/routes", R"({"version":3,"functions":[
      {"name":"default/f","revisions":[{"number":1,"percent":100}],
       "instances":[{"id":"i","revision":1,"socket":"/s","capability":0}]},
      {"name":"default/g","revisions":[{"number":1,"percent":100}],"instances":[]}]})");
  const uint64_t first = ask(verb::get, "/v1/stats")["told"];
  EXPECT_THAT(names(0), ElementsAre("default/f", "default/g"));
  EXPECT_THAT(names(first), IsEmpty());
  dispatcher.find(request, "f", 0, "");
  dispatcher.enter(request, clock.now(), clock.now());
  EXPECT_THAT(names(first), ElementsAre("default/f"));
  const uint64_t second = ask(verb::get, "/v1/stats")["told"];
  EXPECT_THAT(names(second), ElementsAre("default/f")) << "a request is under way";
  dispatcher.finish(request, Outcome::kOk, 0, clock.now());
  const json ended = ask(verb::get, "/v1/stats?since=" + std::to_string(second));
  ASSERT_EQ(ended["functions"].size(), 1u);
  EXPECT_EQ(ended["functions"][0]["in_flight"], 0);
  EXPECT_THAT(names(ended["told"]), IsEmpty());
  EXPECT_THAT(names(first), ElementsAre("default/f")) << "another reader has not seen it";
}

TEST_F(AdminTest, ATableIsAnsweredWithWhoHasARequestInHand) {
  class Quiet : public Waiter {
    void on_granted() override {}
  } request;
  EXPECT_EQ(ask(verb::put, "/v1/routes", kTable)["busy"], json::array());
  dispatcher.find(request, "f", 0, "");
  dispatcher.enter(request, clock.now(), clock.now());
  EXPECT_EQ(ask(verb::get, "/v1/stats")["busy"], json::array({"i"}));
  EXPECT_EQ(ask(verb::put, "/v1/routes", R"({"version":4,"functions":[]})")["busy"],
            json::array({"i"}));
  dispatcher.finish(request, Outcome::kOk, 0, clock.now());
  EXPECT_EQ(ask(verb::get, "/v1/stats")["busy"], json::array());
}

TEST_F(AdminTest, AChangeHoldsForTheVersionThatItIsSince) {
  ask(verb::put, "/v1/routes", kTable);
  const char* change = R"({"since":3,"version":4,"functions":[{"name":"default/g"}],
                           "removed":["default/f"]})";
  EXPECT_EQ(ask(verb::patch, "/v1/routes", change)["version"], 4);
  const json table = ask(verb::get, "/v1/routes");
  ASSERT_EQ(table["functions"].size(), 1u);
  EXPECT_EQ(table["functions"][0]["name"], "default/g");
  EXPECT_EQ(ask(verb::patch, "/v1/routes", change, 409)["error"],
            "routes.since: the table here is not of version 3");
  EXPECT_EQ(ask(verb::get, "/v1/stats")["version"], 4);
  EXPECT_EQ(
      ask(verb::patch, "/v1/routes", R"({"since":4,"version":5,"removed":[7]})", 400)["error"],
      "routes.removed: must be a list of names");
}

TEST_F(AdminTest, ATableIsTakenWholeOrNotAtAll) {
  ask(verb::put, "/v1/routes", kTable);
  EXPECT_THAT(
      ask(verb::put, "/v1/routes", R"({"version":4,"functions":[{"name":""}]})", 400)["error"],
      "function.name: must not be empty");
  EXPECT_THAT(ask(verb::put, "/v1/routes",
                  R"({"version":4,"functions":[{"name":"f","slo_ms":NaN}]})", 400)["error"],
              testing::Not(""));
  EXPECT_EQ(ask(verb::get, "/v1/routes")["version"], 3);
  ask(verb::get, "/v1/nothing", "", 404);
}

}  // namespace
}  // namespace sluice::gateway
