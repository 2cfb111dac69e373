// The gateway's contract with users and operators, line by line: which requests wait and where, the
// answers, and when a client is given up.
#include <gmock/gmock.h>

#include "tests/support/gateway_session.h"

namespace sluice::gateway {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
class Contract : public SessionFixture {
 protected:
  using SessionFixture::SessionFixture;
  // The head of a request whose body streams, and as much of the body as is read before streaming.
  static constexpr size_t kLarge = 9'999'999;
  static std::string large_begins() {
    return "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nContent-Length: " +
           std::to_string(kLarge) + "\r\n\r\nbegin" + std::string(BodyRooms::kSize - 5, 'b');
  }
  // Returns whether an instance sees a request with that body on this connection.
  testing::AssertionResult arrives(const Fd& at, std::string_view body) {
    const std::string seen = receive(at.get(), body);
    if (seen.find(body) != seen.npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the instance saw: " << seen.substr(0, 300);
  }
};

// ---- where requests wait -----------------------------------------------------------------------

TEST_F(Contract, ARequestWaitsInTheQueueAndGoesWhereItCanStartFirst) {
  raw_instance("i");
  raw_instance("k");
  table({"i", "k"});
  const int a = connect(), b = connect(), c = connect();
  send(a, post("first"));
  const Fd i = accepted("i");
  EXPECT_TRUE(arrives(i, "first"));
  send(b, post("second"));
  const Fd k = accepted("k");
  EXPECT_TRUE(arrives(k, "second"));
  send(c, post("third"));
  ASSERT_TRUE(until([&] { return stats().queued == 1; }));
  EXPECT_TRUE(silent(i.get()) && silent(k.get())) << "each has what it can start";
  send(k.get(), answer("done"));
  EXPECT_TRUE(arrives(k, "third")) << "bound late, to who was free first";
}

TEST_F(Contract, TheFirstRequestIsHeldWhileAnInstanceStarts) {
  table({});
  const int c = connect();
  send(c, post("first"));
  EXPECT_TRUE(until([&] { return stats().queued == 1; }));
  instance("i");
  table({"i"});
  EXPECT_THAT(receive(c, "first"), HasSubstr("HTTP/1.1 200"));
  EXPECT_TRUE(until([&] { return counters().cold_starts == 1; })) << counters().cold_starts;
}

TEST_F(Contract, AFullQueueShedsAndSaysWhenToComeBack) {
  RoutingTable t = table_of({});
  t.functions["f"].max_queue = 1;
  put(t);
  send(connect(), post("waits"));
  ASSERT_TRUE(until([&] { return stats().queued == 1; }));
  const int c = connect();
  send(c, post("too many"));
  const std::string shed = receive(c, "}");
  EXPECT_THAT(shed, HasSubstr("HTTP/1.1 429"));
  EXPECT_THAT(shed, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_EQ(counters().shed, 1u);
}

// Most clients take the connection that they gave back last, so the next request on it may be a
// retry or not.
TEST_F(Contract, ARetrySaysTheSameOnTheSameConnection) {
  RoutingTable t = table_of({});
  t.functions["f"].max_queue = 1;
  put(t);
  send(connect(), post("waits"));
  ASSERT_TRUE(until([&] { return stats().queued == 1; }));
  const int c = connect();
  const std::string large(20'000, 'x');
  const struct {
    std::string request;
    uint64_t repeated;  // so far
  } cases[] = {
      {post("one"), 0},
      {post("one"), 1},
      {post("two"), 1},
      {post("two"), 2},
      {post(large + "a" + large), 2},
      {post(large + "b" + large), 3},  // different in the middle alone
      {post(large + large + "b"), 3},
      {post("two"), 3},
  };
  for (const auto& [request, repeated] : cases) {
    send(c, request);
    EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 429"));
    EXPECT_EQ(counters().repeated, repeated) << request.substr(request.size() - 10);
  }
  EXPECT_EQ(counters().shed, std::size(cases));
}

// The answer to Expect: 100-continue, so that no body is sent in vain.
TEST_F(Contract, AFullQueueShedsBeforeTheBodyIsSent) {
  RoutingTable t = table_of({});
  t.functions["f"].max_queue = 1;
  put(t);
  const std::string asks =
      "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
      "Content-Length: 4\r\n\r\n";
  const int first = connect();
  send(first, asks);
  EXPECT_EQ(receive(first, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(stats().queued, 0) << "it has no place yet";
  EXPECT_EQ(counters().requests, 0u) << "and is counted once";
  send(first, "body");
  ASSERT_TRUE(until([&] { return stats().queued == 1; }));
  for (const char* length : {"4", "9999999"}) {
    const int c = connect();
    send(c,
         "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
         "Content-Length: " +
             std::string(length) + "\r\n\r\n");
    EXPECT_THAT(receive(c, ""), testing::AllOf(testing::StartsWith("HTTP/1.1 429"),
                                               HasSubstr("Retry-After: 1\r\n")));
  }
  EXPECT_EQ(counters().requests, 3u);
  EXPECT_EQ(counters().shed, 2u);
}

TEST_F(Contract, OnlyWhatCannotBeServedAtAllIsUnavailable) {
  RoutingTable t = table_of({});
  t.functions["f"].unavailable = "no device has room for it";
  put(t);
  const int c = connect();
  send(c, post("x"));
  const std::string refused = receive(c, "}");
  EXPECT_THAT(refused, HasSubstr("HTTP/1.1 503"));
  EXPECT_THAT(refused, HasSubstr("no device has room for it"));
  for (const char* path : {"nobody/infer", "nobody/ready", "nobody", "f/versions/9/infer"}) {
    send(c, "POST /v2/models/" + std::string(path) +
                " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    const std::string unknown = receive(c, "}");
    EXPECT_THAT(unknown, HasSubstr("HTTP/1.1 404"));
    EXPECT_THAT(unknown, HasSubstr(R"({"error":"Request for unknown model: ')")) << path;
  }
}

// ---- time --------------------------------------------------------------------------------------

TEST_F(Contract, ARequestThatWaitsTooLongIsAnsweredSo) {
  RoutingTable t = table_of({});
  t.functions["f"].timeout = Millis(50);
  put(t);
  const int c = connect();
  send(c, post("x"));
  EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 504"));
  EXPECT_EQ(counters().timed_out, 1u);
  EXPECT_EQ(stats().queued, 0);
}

TEST_F(Contract, AnInstanceThatTakesTooLongIsLeft) {
  raw_instance("i");
  RoutingTable t = table_of({"i"});
  t.functions["f"].timeout = Millis(50);
  put(t);
  const int c = connect();
  send(c, post("x"));
  const Fd i = accepted("i");
  EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 504"));
  EXPECT_THAT(receive(i.get(), ""), HasSubstr("<closed>"));
  EXPECT_EQ(stats().in_flight, 0);
}

TEST_F(Contract, AHeadThatDripsIsGivenUp) {
  limits.head = Millis(50);
  const int c = connect();
  send(c, "POST /v2/models/f/infer HT");
  const std::string refused = receive(c, "");
  EXPECT_THAT(refused, HasSubstr("HTTP/1.1 408"));
  EXPECT_THAT(refused, HasSubstr("<closed>"));
}

TEST_F(Contract, ABodyThatDripsHoldsNoInstanceAndIsGivenUp) {
  limits.body_patience = Millis(200);
  instance("i");
  table({"i"});
  const int slow = connect();
  send(slow, "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nso");
  ASSERT_TRUE(until([&] { return loop->slow() == 1; }));
  EXPECT_EQ(stats().in_flight, 0);
  EXPECT_THAT(ask(connect(), "quick"), HasSubstr("HTTP/1.1 200")) << "the only credit is free";
  EXPECT_THAT(receive(slow, ""), HasSubstr("HTTP/1.1 408"));
  EXPECT_EQ(stats().queued, 0);
}

// A large body streams through, so it does hold an instance; not for longer than it earns.
TEST_F(Contract, ALargeBodyThatDripsIsGivenUpEvenIfAByteComesNowAndThen) {
  limits.stream_patience = Millis(500);
  limits.stream_rate = 1e9;
  raw_instance("i");
  table({"i"});
  const int slow = connect();
  send(slow, large_begins());
  const Fd i = accepted("i");
  EXPECT_TRUE(until([&] {
    char taken[4096];
    ::send(slow, "b", 1, MSG_NOSIGNAL);
    while (::recv(i.get(), taken, sizeof taken, 0) > 0) {
    }
    return stats().in_flight == 0;
  }));
  EXPECT_THAT(receive(slow, ""), HasSubstr("HTTP/1.1 408"));
  EXPECT_THAT(receive(i.get(), ""), HasSubstr("<closed>"));
}

// ---- clients that leave ------------------------------------------------------------------------

TEST_F(Contract, AClientThatLeavesWhileItWaitsLeavesTheQueue) {
  table({});
  send(connect(), post("x"));
  ASSERT_TRUE(until([&] { return stats().queued == 1; }));
  clients.back().reset();
  EXPECT_TRUE(until([&] { return counters().gone == 1; }));
  EXPECT_EQ(stats().queued, 0);
}

TEST_F(Contract, ARequestWithoutAClientHoldsItsInstanceUntilThatIsDoneWithIt) {
  raw_instance("i");
  table({"i"});
  for (const bool answers : {true, false}) {
    send(connect(), post("x"));
    Fd i = accepted("i");
    EXPECT_TRUE(arrives(i, "x"));
    clients.back().reset();
    EXPECT_EQ(receive(i.get(), ""), "<closed>") << "it may drop the request now";
    EXPECT_EQ(stats().in_flight, 1) << "it may also be at work on it";
    const uint64_t gone = counters().gone;
    if (answers)
      send(i.get(), answer("in vain"));
    else
      i.reset();
    EXPECT_TRUE(until([&] { return counters().gone == gone + 1; }));
    EXPECT_EQ(stats().in_flight, 0) << "its credit is free again";
    EXPECT_EQ(stats().instances[0].overdue_since, Time{});
  }
}

TEST_F(Contract, AnInstanceThatIsSilentToAnAbandonedRequestIsOverdueAtItsTimeOut) {
  use({}, manual);
  raw_instance("i");
  RoutingTable t = table_of({"i"});
  t.functions["f"].timeout = Seconds(10);
  dispatcher.set_table(t, manual.now());
  const auto state = [&] { return dispatcher.stats(manual.now())[0]; };
  send(connect(), post("x"));
  const Fd i = accepted("i");
  EXPECT_TRUE(arrives(i, "x"));
  manual.advance(Millis(500));
  clients.back().reset();
  EXPECT_EQ(receive(i.get(), ""), "<closed>");
  manual.advance(Seconds(9));
  EXPECT_EQ(state().in_flight, 1) << "its time is not over";
  manual.advance(Millis(500));
  EXPECT_TRUE(until([&] { return state().counters.gone == 1; }));
  EXPECT_EQ(state().in_flight, 0);
  EXPECT_EQ(state().instances[0].overdue_since, manual.now());
}

TEST_F(Contract, ARequestWithoutAClientDoesNotHoldUpTheEndOfTheGateway) {
  raw_instance("i");
  table({"i"});
  send(connect(), post("x"));
  const Fd i = accepted("i");
  EXPECT_TRUE(arrives(i, "x"));
  clients.back().reset();
  EXPECT_EQ(receive(i.get(), ""), "<closed>");
  loop->stop();
  EXPECT_TRUE(until([&] { return loop->sessions() == 0; }));
}

TEST_F(Contract, AClientThatLeavesWithinALargeBodyIsGivenUpAtTheInstance) {
  raw_instance("i");
  table({"i"});
  send(connect(), large_begins());
  const Fd i = accepted("i");
  clients.back().reset();
  EXPECT_THAT(receive(i.get(), ""), HasSubstr("<closed>"));
  EXPECT_TRUE(until([&] { return counters().gone == 1; }));
}

// ---- instances that die ------------------------------------------------------------------------

TEST_F(Contract, ARequestIsSentOnceMoreElsewhereWhenItsInstanceDiesBeforeItAnswers) {
  raw_instance("i");
  table({"i"});
  const int c = connect();
  send(c, post("again"));
  Fd i = accepted("i");
  EXPECT_TRUE(arrives(i, "again"));
  instance("k");
  table({"i", "k"});
  i.reset();
  EXPECT_THAT(receive(c, "\r\n\r\nagain"), HasSubstr("HTTP/1.1 200"));
  EXPECT_EQ(counters().retried, 1u);
  EXPECT_EQ(counters().requests, 1u);
}

TEST_F(Contract, ASecondDeathIsAnsweredWithTheReason) {
  raw_instance("i");
  raw_instance("k");
  table({"i", "k"});
  const int c = connect();
  send(c, post("deadly"));
  Fd i = accepted("i");
  EXPECT_TRUE(arrives(i, "deadly"));
  i.reset();
  Fd k = accepted("k");
  EXPECT_TRUE(arrives(k, "deadly"));
  k.reset();
  const std::string failed = receive(c, "}");
  EXPECT_THAT(failed, HasSubstr("HTTP/1.1 502"));
  EXPECT_THAT(failed, HasSubstr("the instance died, and so did the next one"));
  EXPECT_EQ(counters().failed, 1u);
}

TEST_F(Contract, ACompressedBodyIsNotSentToASecondInstance) {
  raw_instance("i");
  instance("k");
  table({"i"});
  const int c = connect();
  send(c, post("bomb", "Content-Encoding: gzip\r\n"));
  Fd i = accepted("i");
  EXPECT_TRUE(arrives(i, "bomb"));
  table({"i", "k"});
  i.reset();
  const std::string failed = receive(c, "}");
  EXPECT_THAT(failed, HasSubstr("HTTP/1.1 502"));
  EXPECT_THAT(failed, HasSubstr("the instance died; a compressed body is not sent again"));
  EXPECT_EQ(counters().retried, 0u);
}

TEST_F(Contract, ALargeBodyIsNotSentAgainAndTheAnswerSaysWhy) {
  raw_instance("i");
  instance("k");
  table({"i"});
  const int c = connect();
  send(c, large_begins());
  Fd i = accepted("i");
  EXPECT_TRUE(arrives(i, "begin"));
  table({"i", "k"});
  i.reset();
  send(c, std::string(kLarge - BodyRooms::kSize, 'b'));
  const std::string failed = receive(c, "}");
  EXPECT_THAT(failed, HasSubstr("HTTP/1.1 502"));
  EXPECT_THAT(failed, HasSubstr("a body this large is not kept"));
}

TEST_F(Contract, AnAnswerThatBreaksOffIsNotPassedOffAsWhole) {
  raw_instance("i");
  table({"i"});
  const int c = connect();
  send(c, post("x"));
  Fd i = accepted("i");
  EXPECT_TRUE(arrives(i, "x"));
  send(i.get(), "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
  EXPECT_THAT(receive(c, "half"), HasSubstr("Content-Length: 10"));
  i.reset();
  EXPECT_EQ(receive(c, ""), "<closed>");
  EXPECT_TRUE(until([&] { return counters().failed == 1; }));
  EXPECT_EQ(counters().retried, 0u) << "its answer had begun";
}

TEST_F(Contract, WhatIsNoHttpIsNotPassedOn) {
  raw_instance("i");
  table({"i"});
  const int c = connect();
  send(c, post("x"));
  Fd i = accepted("i");
  EXPECT_TRUE(arrives(i, "x"));
  send(i.get(), "SSH-2.0-OpenSSH_9.2\r\n\r\n");
  EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 502"));
}

TEST_F(Contract, AnEarlyAnswerToALargeBodyArrives) {
  raw_instance("i");
  table({"i"});
  const int c = connect();
  send(c, large_begins());
  const Fd i = accepted("i");
  size_t taken = 0;
  ASSERT_TRUE(until([&] {
    char some[65536];
    for (ssize_t n; (n = ::recv(i.get(), some, sizeof some, 0)) > 0;)
      taken += static_cast<size_t>(n);
    return taken > BodyRooms::kSize;
  }));
  send(i.get(), "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno");
  send(c, std::string(1 << 20, 'b'));
  const std::string early = receive(c, "no");
  EXPECT_THAT(early, HasSubstr("HTTP/1.1 413"));
  EXPECT_THAT(early, HasSubstr("Connection: close"));
}

// Otherwise they would have waited for a minute.
TEST_F(Contract, ADeletedFunctionAnswersWhatItHasAndTurnsTheRestAwayAtOnce) {
  raw_instance("i");
  raw_instance("k");
  table({"i", "k"});
  const int answered = connect(), orphaned = connect(), waiting = connect(), reading = connect();
  send(answered, post("answered"));
  const Fd i = accepted("i");
  EXPECT_TRUE(arrives(i, "answered"));
  send(orphaned, post("orphaned"));
  Fd k = accepted("k");
  EXPECT_TRUE(arrives(k, "orphaned"));
  send(waiting, post("waiting"));
  send(reading, "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\nrea");
  ASSERT_TRUE(until([&] { return counters().requests == 3 && loop->slow() == 1; }));
  put({});
  EXPECT_THAT(receive(waiting, "}"), HasSubstr("HTTP/1.1 503"));
  send(reading, "ding");
  EXPECT_THAT(receive(reading, "}"), HasSubstr("HTTP/1.1 503"));
  k.reset();
  const std::string refused = receive(orphaned, "}");
  EXPECT_THAT(refused, HasSubstr("HTTP/1.1 503"));
  EXPECT_THAT(refused, HasSubstr("the function was deleted meanwhile"));
  send(i.get(), answer("answered"));
  EXPECT_THAT(receive(answered, "answered"), HasSubstr("HTTP/1.1 200"));
  send(answered, post("late"));
  EXPECT_THAT(receive(answered, "}"), HasSubstr("HTTP/1.1 404"));
}

TEST_F(Contract, WhatWaitsForAFunctionThatBecomesUnavailableIsToldWhyAtOnce) {
  RoutingTable t = table_of({});
  put(t);
  const int waiting = connect();
  send(waiting, post("waiting"));
  ASSERT_TRUE(until([&] { return stats().queued == 1; }));
  t.functions["f"].unavailable = "no device has room";
  put(t);
  const std::string refused = receive(waiting, "}");
  EXPECT_THAT(refused, HasSubstr("HTTP/1.1 503"));
  EXPECT_THAT(refused, HasSubstr("no device has room"));
  EXPECT_TRUE(until([&] { return stats().queued == 0; }));
}

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

// ---- how large a body may be -------------------------------------------------------------------

class ContractOfBodies : public Contract {
 protected:
  ContractOfBodies() { limits.body_bytes = 2 << 20; }
  static std::string head(const std::string& framing) {
    return "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\n" + framing + "\r\n\r\n";
  }
  // Sends what fits into the socket while the loop runs. Returns the answer, to its end.
  std::string push(int c, std::string_view bytes, std::string_view until_text) {
    std::string all;
    until([&] {
      const ssize_t n = ::send(c, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
      return bytes.empty();
    });
    EXPECT_EQ(bytes.size(), 0u) << "the gateway takes what it has refused, until it is read";
    return receive(c, until_text);
  }
};

TEST_F(ContractOfBodies, ItIsSaidBeforeTheBodyIsSent) {
  table({});
  for (const char* expect : {"Expect: 100-continue\r\n", ""}) {
    const int c = connect();
    send(c, head(expect + std::string("Content-Length: 2097153")));
    const std::string answer = receive(c, "}");
    EXPECT_THAT(answer, testing::StartsWith("HTTP/1.1 413")) << "no 100 Continue before";
    EXPECT_THAT(answer, HasSubstr("larger than the 2097152 bytes allowed"));
  }
  EXPECT_EQ(counters().invalid, 2u);
}

// The gateway answers a repository call itself, and keeps its whole body.
TEST_F(ContractOfBodies, ARepositoryCallHasItsOwnLimit) {
  table({});
  const std::string load = "POST /v2/repository/models/f/load HTTP/1.1\r\nHost: x\r\n";
  const std::string too_large = "larger than the 1048576 bytes allowed here";
  const std::string mebibyte(1 << 20, ' ');
  const int asking = connect();
  send(asking, load + "Expect: 100-continue\r\nContent-Length: 1048577\r\n\r\n");
  EXPECT_THAT(receive(asking, "}"),
              testing::AllOf(testing::StartsWith("HTTP/1.1 413"), HasSubstr(too_large)));
  EXPECT_THAT(
      push(connect(),
           load + "Transfer-Encoding: chunked\r\n\r\n100001\r\n" + mebibyte + " \r\n0\r\n\r\n",
           "}"),
      testing::AllOf(testing::StartsWith("HTTP/1.1 413"), HasSubstr(too_large)));
  EXPECT_THAT(push(connect(), load + "Content-Length: 1048576\r\n\r\n" + mebibyte, "{}"),
              testing::StartsWith("HTTP/1.1 200"));
}

TEST_F(ContractOfBodies, ARepositoryCallIsRefusedForNowWhereNoMemoryIsFree) {
  use({.body_rooms = 0});
  table({});
  const auto load = [&](size_t bytes) {
    return push(connect(),
                "POST /v2/repository/models/f/load HTTP/1.1\r\nHost: x\r\nContent-Length: " +
                    std::to_string(bytes) + "\r\n\r\n" + std::string(bytes, ' '),
                "}");
  };
  EXPECT_THAT(load(16 * 1024), testing::StartsWith("HTTP/1.1 200")) << "it lies behind its head";
  EXPECT_THAT(load(16 * 1024 + 1),
              testing::AllOf(testing::StartsWith("HTTP/1.1 503"), HasSubstr("no memory is free")));
}

TEST_F(ContractOfBodies, AClientThatIsStillWritingCanReadIt) {
  table({});
  const int c = connect();
  const std::string body(16 << 20, 'b');
  EXPECT_THAT(push(c, head("Content-Length: " + std::to_string(body.size())) + body, "}"),
              testing::StartsWith("HTTP/1.1 413"));
}

TEST_F(ContractOfBodies, ABodyWithoutALengthIsCounted) {
  instance("i", [](HttpRequest request) -> wire::asio::awaitable<HttpResponse> {
    co_return wire::text_response(std::to_string(request.body().size()) + " bytes.");
  });
  table({"i"});
  std::string chunks;
  for (int i = 0; i < 31; ++i) chunks += "10000\r\n" + std::string(0x10000, 'z') + "\r\n";
  const int fits = connect(), exceeds = connect();
  EXPECT_THAT(push(fits, head("Transfer-Encoding: chunked") + chunks + "0\r\n\r\n", "bytes."),
              HasSubstr("2031616 bytes."));
  chunks += "10001\r\n" + std::string(0x10001, 'z') + "\r\n";
  EXPECT_THAT(push(exceeds, head("Transfer-Encoding: chunked") + chunks + "0\r\n\r\n", "}"),
              testing::StartsWith("HTTP/1.1 413"));
  limits.body_bytes = 10;
  const int small = connect();
  EXPECT_THAT(
      push(small, head("Transfer-Encoding: chunked") + "b\r\nhello world\r\n0\r\n\r\n", "}"),
      testing::StartsWith("HTTP/1.1 413"));
}

TEST_F(ContractOfBodies, AnInstanceThatInflatesABodyIsToldTheLimit) {
  instance("i", [](HttpRequest request) -> wire::asio::awaitable<HttpResponse> {
    co_return wire::text_response("limit '" + std::string(request["Sluice-Body-Limit"]) + "'.");
  });
  table({"i"});
  const int c = connect();
  send(c, post("x", "Content-Encoding: gzip\r\nSluice-Body-Limit: 9999999\r\n"));
  EXPECT_THAT(receive(c, "'."), HasSubstr("limit '2097152'."));
  send(c, post("x"));
  EXPECT_THAT(receive(c, "'."), HasSubstr("limit ''."));
}

// ---- identities and tokens ---------------------------------------------------------------------

TEST_F(Contract, EveryRequestHasAnIdentityAndATrace) {
  instance("i");
  table({"i"});
  const std::string made = ask(connect(), "one");
  const auto value = [](const std::string& answer, const std::string& name) {
    const size_t at = answer.find("\r\n" + name + ": ");
    if (at == answer.npos) return std::string();
    const size_t from = at + name.size() + 4;
    return answer.substr(from, answer.find('\r', from) - from);
  };
  EXPECT_THAT(value(made, "Seen-Trace"), MatchesRegex("00-[0-9a-f]{32}-[0-9a-f]{16}-01"));
  EXPECT_THAT(value(made, "X-Request-Id"), MatchesRegex("[0-9a-f]{32}"));
  EXPECT_EQ(value(made, "Seen-Id"), value(made, "X-Request-Id"));
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
  const std::string passed =
      ask(connect(), "two", "X-Request-Id: mine\r\ntraceparent: " + trace + "\r\n");
  EXPECT_EQ(value(passed, "Seen-Trace"), trace);
  EXPECT_EQ(value(passed, "Seen-Id"), "mine");
  EXPECT_EQ(value(passed, "X-Request-Id"), "mine");
  const int c = connect();
  send(c, "GET /nothing HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\n\r\n");
  EXPECT_EQ(value(receive(c, "}"), "X-Request-Id"), "mine") << "our own answers too";
}

TEST_F(Contract, InstancesHearHowMuchTimeIsLeft) {
  instance("i");
  RoutingTable t = table_of({"i"});
  t.functions["f"].slo = Seconds(20);
  put(t);
  const auto time_left = [](const std::string& answer) {
    const size_t at = answer.find("Seen-Time-Left: ");
    return Micros(at != answer.npos ? std::atoll(answer.c_str() + at + 16) : -1);
  };
  const int c = connect();
  const Micros said = time_left(ask(c, "x", "Sluice-Time-Left: 99000000\r\n"));
  EXPECT_LE(said, Seconds(20)) << "clients have no say in it";
  EXPECT_GT(said, Seconds(0));
  t.functions["f"].slo = Nanos(1);
  put(t);
  EXPECT_EQ(time_left(ask(c, "y")), Micros(0)) << "late already";
  send(c, "GET /v2/models/f HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(receive(c, "Seen-Id"), HasSubstr("Seen-Time-Left: \r\n")) << "a question is no load";
}

TEST_F(Contract, AFunctionsTokenIsAskedForAndStaysHere) {
  instance("i");
  RoutingTable t = table_of({"i"});
  t.functions["f"].token = "secret";
  put(t);
  const int c = connect();
  send(c, post("x"));
  const std::string denied = receive(c, "}");
  EXPECT_THAT(denied, HasSubstr("HTTP/1.1 401"));
  EXPECT_THAT(denied, HasSubstr("WWW-Authenticate: Bearer\r\n"));
  const std::string served = ask(c, "let in", "Authorization: Bearer secret\r\n");
  EXPECT_THAT(served, HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(served, Not(HasSubstr("secret")));
  // A function without a token may have a scheme of its own, if the platform has none either.
  table({"i"});
  EXPECT_THAT(ask(c, "own", "Authorization: Basic dTpw\r\n"), HasSubstr("Seen-Token: Basic dTpw"));
}

class ContractWithAPlatformToken : public Contract {
 protected:
  ContractWithAPlatformToken() : Contract("platform") {}
  std::string get(std::string_view path, std::string_view extra = "") {
    const int c = connect();
    send(c, "GET " + std::string(path) + " HTTP/1.0\r\nHost: x\r\n" + std::string(extra) + "\r\n");
    return receive(c, "");
  }
};

TEST_F(ContractWithAPlatformToken, ItHoldsForFunctionsThatHaveNoneOfTheirOwn) {
  instance("i");
  RoutingTable t = table_of({"i"});
  put(t);
  const int c = connect();
  send(c, post("x"));
  EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 401"));
  const std::string served = ask(c, "let in", "Authorization: Bearer platform\r\n");
  EXPECT_THAT(served, HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(served, Not(HasSubstr("Bearer"))) << "the instance has not seen it";
  t.functions["f"].token = "own";
  put(t);
  send(c, post("x", "Authorization: Bearer platform\r\n"));
  EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 401"));
  EXPECT_THAT(ask(c, "in again", "Authorization: Bearer own\r\n"), HasSubstr("HTTP/1.1 200"));
}

TEST_F(ContractWithAPlatformToken, ItHoldsForListingsButNotForHealth) {
  for (const char* open : {"/", "/v2/health/live", "/v2/health/ready"})
    EXPECT_THAT(get(open), HasSubstr(" 200 ")) << open;
  for (const char* closed : {"/v2", "/v2/models", "/v2/models/stats", "/metrics"}) {
    EXPECT_THAT(get(closed), HasSubstr(" 401 ")) << closed;
    EXPECT_THAT(get(closed, "Authorization: Bearer platform\r\n"), HasSubstr(" 200 ")) << closed;
  }
}

}  // namespace
}  // namespace sluice::gateway
