// The gateway's contract with users and operators, line by line: what is said of a function, and
// what clients of Triton and KServe ask.
#include <gmock/gmock.h>

#include "tests/support/gateway_contract.h"

namespace sluice::gateway {
namespace {

using testing::HasSubstr;
using testing::Not;

// ---- what is said of a function ----------------------------------------------------------------

wire::asio::awaitable<HttpResponse> computes(HttpRequest request) {
  HttpResponse r = wire::text_response(request.body());
  r.set("Sluice-Inferences", "2");
  r.set("Sluice-Compute", "1000; 2 1 10000 20000 30000");
  co_return r;
}

TEST_F(Contract, StatisticsAreOfTheFunctionWhicheverInstanceAnswered) {
  instance("i", computes);
  instance("k", computes);
  RoutingTable t = table_of({"i"});
  t.functions["g"] = t.functions["f"];
  t.functions["g"].name.name = "g";
  put(t);
  const int c = connect();
  EXPECT_THAT(ask(c, "first"), Not(HasSubstr("Sluice-Compute"))) << "between the two of us";
  table({"k"});  // the first one ended
  ask(c, "second");
  const auto about = [&](const std::string& path) {
    send(c, "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string answer = receive(c, "]}");
    EXPECT_THAT(answer, HasSubstr("HTTP/1.1 200")) << path;
    return nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n")))["model_stats"];
  };
  for (const char* path : {"/v2/models/f/stats", "/v2/models/f/versions/1/stats"}) {
    const nlohmann::json all = about(path);
    ASSERT_EQ(all.size(), 1u) << path;
    const nlohmann::json& f = all[0];
    EXPECT_EQ(f["name"], "f");
    EXPECT_EQ(f["version"], "1");
    EXPECT_EQ(f["inference_count"], 4);
    EXPECT_EQ(f["execution_count"], 2);
    EXPECT_GT(f["last_inference"], 0);
    const nlohmann::json& of = f["inference_stats"];
    EXPECT_EQ(of["success"]["count"], 2);
    EXPECT_GT(of["success"]["ns"], 0);
    EXPECT_EQ(of["fail"]["count"], 0);
    EXPECT_GE(of["queue"]["ns"], 2000);
    EXPECT_EQ(of["compute_input"]["ns"], 20'000);
    EXPECT_EQ(of["compute_infer"]["ns"], 40'000);
    EXPECT_EQ(of["compute_output"], (nlohmann::json{{"count", 2}, {"ns", 60'000}}));
    EXPECT_EQ(f["batch_stats"][0]["batch_size"], 2);
    EXPECT_EQ(f["batch_stats"][0]["compute_infer"]["count"], 2);
  }
  put(t);
  EXPECT_EQ(about("/v2/models/stats").size(), 2u) << "of all functions";
  send(c, "GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n");
  const std::string metrics = receive(c, "");
  for (const char* line :
       {"nv_inference_request_success{model=\"f\",version=\"1\"} 2\n",
        "nv_inference_count{model=\"f\",version=\"1\"} 4\n",
        "nv_inference_exec_count{model=\"f\",version=\"1\"} 2\n",
        "nv_inference_compute_input_duration_us{model=\"f\",version=\"1\"} 20\n",
        "nv_inference_compute_infer_duration_us{model=\"f\",version=\"1\"} 40\n",
        "nv_inference_compute_output_duration_us{model=\"f\",version=\"1\"} 60\n",
        "version=\"1\",reason=\"REJECTED\"} 0\n"})
    EXPECT_THAT(metrics, HasSubstr(line));
}

TEST_F(Contract, AskingForStatisticsIsNoRequest) {
  table({});
  const int c = connect();
  send(c, "GET /v2/models/f/stats HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(receive(c, "]}"), HasSubstr("HTTP/1.1 200"));
  send(c, "POST /v2/models/nobody/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
  EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 404"));
  clients.back().reset();
  ASSERT_TRUE(until([&] { return loop->sessions() == 0; }));
  EXPECT_EQ(counters().requests, 0u);
  EXPECT_EQ(counters().failed, 0u);
}

TEST_F(Contract, FailuresAreCountedWithTheirRevision) {
  RoutingTable t = table_of({});
  t.functions["f"].max_queue = 0;
  t.functions["f"].split = {{3, 100}};
  put(t);
  const int c = connect();
  send(c, post("x"));
  EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 429"));
  const RevisionStats r = stats().revisions.at(3);
  EXPECT_EQ(r.rejected, 1u);
  EXPECT_EQ(r.model.fail.count, 1u);
}

TEST_F(Contract, AModelLooksTheSameDuringACanary) {
  const auto tells = [](std::string id) {
    return [id](HttpRequest request) -> wire::asio::awaitable<HttpResponse> {
      co_return wire::text_response("by " + id + ", versions " +
                                    std::string(request["Sluice-Versions"]) + ".");
    };
  };
  instance("old", tells("old"));
  instance("new", tells("new"));
  RoutingTable t = table_of({"old", "new"});
  t.functions["f"].instances[1].revision = 2;
  t.functions["f"].split = {{1, 60}, {2, 40}};
  put(t);
  const int c = connect();
  for (int i = 0; i < 5; ++i) {
    send(c, "GET /v2/models/f HTTP/1.1\r\nHost: x\r\nSluice-Versions: 9\r\n\r\n");
    EXPECT_THAT(receive(c, "."), HasSubstr("by old, versions 1,2."));
  }
  send(c, "GET /v2/models/f/versions/2 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(receive(c, "."), HasSubstr("by new, versions 1,2."));
  EXPECT_THAT(receive((send(c, post("x")), c), "."), HasSubstr("versions ."))
      << "an inference needs none";
}

// ---- questions of Triton's and KServe's clients ------------------------------------------------

TEST_F(Contract, TheRepositoryReadsWhatItIsAsked) {
  instance("i");
  RoutingTable t = table_of({"i"});
  FunctionRoute starting = t.functions["f"], broken = t.functions["f"];
  starting.name.name = "s";
  broken.name.name = "b";
  starting.instances.clear();
  broken.instances.clear();
  broken.unavailable = "its model cannot be read";
  t.functions["s"] = starting;
  t.functions["b"] = broken;
  put(t);
  struct Case {
    const char *path, *body;
    int status;
    std::vector<const char*> has, has_not;
  };
  const Case cases[] = {
      {"index",
       "",
       200,
       {R"("name":"f","reason":"","state":"READY","version":"1")",
        R"("name":"s","reason":"","state":"LOADING")",
        R"("name":"b","reason":"its model cannot be read","state":"UNAVAILABLE")"},
       {}},
      {"index", "{}", 200, {R"("name":"s")"}, {}},
      {"index", R"({"ready":false})", 200, {R"("name":"s")"}, {}},
      {"index", R"({"ready":true})", 200, {R"("name":"f")"}, {R"("name":"s")", R"("name":"b")"}},
      {"index", R"({"ready":1})", 400, {"ready: 1 is not allowed, true and false are"}, {}},
      {"index", "{", 400, {"error"}, {}},
      {"models/f/load", "", 200, {"{}"}, {}},
      {"models/f/load", R"({"parameters":{}})", 200, {"{}"}, {}},
      {"models/f/load", R"({"parameters":{"config":null}})", 200, {"{}"}, {}},
      {"models/f/load", "{", 400, {"error"}, {}},
      {"models/f/load", "[]", 400, {"must be a JSON object"}, {}},
      {"models/f/load", R"({"config":{}})", 400, {"'config' is not applied"}, {}},
      {"models/f/load",
       R"({"parameters":{"config":"{}"}})",
       400,
       {"'config' is not applied", "sluice apply"},
       {}},
      {"models/f/load",
       R"({"parameters":{"file:1/model.pt":"AAAA"}})",
       400,
       {"'file:1/model.pt' is not applied"},
       {}},
      {"models/g/load", "", 404, {"failed to load 'g': there is no such function"}, {}},
      {"models/g/unload", "", 404, {"failed to unload 'g'"}, {}},
      {"models/f/unload",
       R"({"parameters":{"unload_dependents":true}})",
       400,
       {"sluice delete"},
       {}},
  };
  const int c = connect();
  for (const Case& test : cases) {
    const std::string body = test.body;
    send(c, "POST /v2/repository/" + std::string(test.path) +
                " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
                "\r\n\r\n" + body);
    std::string answer = receive(c, "\r\n\r\n");
    const size_t length = std::stoul(answer.substr(answer.find("Content-Length: ") + 16));
    while (answer.size() < answer.find("\r\n\r\n") + 4 + length) answer += receive(c, "");
    EXPECT_THAT(answer, HasSubstr("HTTP/1.1 " + std::to_string(test.status))) << body;
    for (const char* has : test.has) EXPECT_THAT(answer, HasSubstr(has)) << body;
    for (const char* not_ : test.has_not) EXPECT_THAT(answer, Not(HasSubstr(not_))) << body;
  }
}

TEST_F(Contract, TheServerIsReadyAndStrictlySoWhenAllFunctionsAre) {
  const LocalAnswers strict(dispatcher, "test", true);
  const auto status = [&](const LocalAnswers& answers) {
    return answers.answer("GET", "/v2/health/ready", clock.now())->status;
  };
  EXPECT_EQ(status(strict), 200) << "no function is missing";
  table({});
  EXPECT_EQ(status(local), 200);
  EXPECT_EQ(status(strict), 503);
  table({"i"});
  EXPECT_EQ(status(strict), 200);
}

TEST_F(Contract, WhatIsNotServedIsRefusedInASentence) {
  table({});
  struct Case {
    const char *line, *status, *why;
  };
  const Case cases[] = {
      {"POST /v1/models/f:predict", "404", "KServe's v1 protocol is not served"},
      {"GET /v1/models", "404", "ask /v2/models/NAME/infer"},
      {"GET /v2/trace/setting", "501", "trace settings are not served"},
      {"POST /v2/models/f/trace/setting", "501", "trace settings are not served"},
      {"GET /v2/logging", "501", "logging settings are not served"},
      {"GET /v2/systemsharedmemory/status", "501", "shared memory is not served"},
      {"POST /v2/cudasharedmemory/region/r/register", "501", "shared memory is not served"},
  };
  const int c = connect();
  for (const Case& test : cases) {
    send(c, std::string(test.line) + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    const std::string answer = receive(c, "}");
    EXPECT_THAT(answer, HasSubstr(std::string("HTTP/1.1 ") + test.status)) << test.line;
    EXPECT_THAT(answer, HasSubstr(test.why)) << test.line;
  }
}

// In frames, since such a client reads nothing else: settings, then headers and the sentence on the
// stream that it opened.
TEST_F(Contract, AClientThatBeginsWithHttp2IsRefusedOnItsStream) {
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const std::string settings("\0\0\0\4\0\0\0\0\0", 9);
  const std::string headers("\0\0\1\1\5\0\0\0\7\x82", 10);
  for (const size_t cut : {preface.size() - 8, preface.size(), preface.size() + 12}) {
    const int c = connect();
    const std::string all = preface + settings + headers;
    send(c, all.substr(0, cut));
    EXPECT_EQ(receive(c, settings), settings);
    send(c, all.substr(cut));
    const std::string answer = receive(c, "");
    EXPECT_EQ(answer[3], 1) << "headers";
    EXPECT_EQ(answer.substr(5, 4), std::string("\0\0\0\7", 4));
    EXPECT_THAT(answer, HasSubstr("505"));
    EXPECT_THAT(answer,
                HasSubstr(R"({"error":"HTTP/2, and so gRPC, is not served: use HTTP/1.1"})"));
    EXPECT_THAT(answer, HasSubstr("<closed>"));
  }
  const int garbage = connect();
  send(garbage, preface + "GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(receive(garbage, ""), HasSubstr("is not served")) << "the end of the connection";
}

}  // namespace
}  // namespace sluice::gateway
