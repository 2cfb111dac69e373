// The gateway's contract with users and operators, line by line: which requests wait and where, how
// long, and when a client is given up.
#include <gmock/gmock.h>

#include "tests/support/gateway_contract.h"

namespace sluice::gateway {
namespace {

using testing::HasSubstr;

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

}  // namespace
}  // namespace sluice::gateway
