// Clients that are slow, silent, or send without reading: what they hold, and the effect on others.
#include <gmock/gmock.h>

#include "tests/support/gateway_session.h"

namespace sluice::gateway {
namespace {

using testing::HasSubstr;
using testing::Not;

class SlowClients : public SessionFixture {
 protected:
  static std::string head(size_t length, std::string_view path = "infer") {
    return "POST /v2/models/f/" + std::string(path) +
           " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
  }
};

TEST_F(SlowClients, BodiesThatNeverComeTakeNoPlaceInTheQueue) {
  raw_instance("i");
  RoutingTable t = table_of({"i"});
  t.functions["f"].max_queue = 2;
  put(t);
  for (int i = 0; i < 20; ++i) send(connect(), head(372) + "begins");
  const int a = connect(), b = connect(), c = connect();
  for (const int client : {a, b, c}) send(client, post("here"));
  const Fd i = accepted("i");
  for (const int client : {a, b, c}) {
    receive(i.get(), "here");
    send(i.get(), answer("done"));
    EXPECT_THAT(receive(client, "done"), HasSubstr("HTTP/1.1 200"));
  }
}

class FewSlowClients : public SlowClients {
 protected:
  FewSlowClients() { use({.connections = 6, .slow = 3, .slow_of_peer = 2}); }
};

TEST_F(FewSlowClients, OfTooManyBodiesTheOldestIsGivenUp) {
  instance("i");
  table({"i"});
  std::vector<int> slow;
  for (int i = 0; i < 4; ++i) {
    slow.push_back(connect());
    send(slow.back(), head(10) + "begins");
    ASSERT_TRUE(until([&] { return loop->slow() == std::min<size_t>(slow.size(), 3); }));
  }
  EXPECT_EQ(receive(slow[0], ""), "<closed>");
  for (int i = 1; i < 4; ++i) {
    EXPECT_TRUE(silent(slow[static_cast<size_t>(i)])) << i;
    send(slow[static_cast<size_t>(i)], "ends");
    EXPECT_THAT(receive(slow[static_cast<size_t>(i)], "beginsends"), HasSubstr("200")) << i;
  }
}

TEST_F(FewSlowClients, OfOneAddressLessIsTaken) {
  table({});
  const int other = connect(7);
  send(other, head(10));
  ASSERT_TRUE(until([&] { return loop->slow() == 1; }));
  const int first = connect(8), second = connect(8), third = connect(8);
  for (const int client : {first, second}) send(client, head(10));
  ASSERT_TRUE(until([&] { return loop->slow() == 3; }));
  send(third, head(10));
  EXPECT_EQ(receive(first, ""), "<closed>") << "the oldest of that address, not of all";
  EXPECT_TRUE(silent(other));
}

TEST_F(FewSlowClients, TheIdlestMakesRoom) {
  std::vector<int> idle;
  for (int i = 0; i < 6; ++i) idle.push_back(connect());
  ASSERT_TRUE(until([&] { return loop->sessions() == 6; }));
  EXPECT_FALSE(loop->has_room());
  send(idle[0], "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(receive(idle[0], "}"), HasSubstr("200"));
  ASSERT_TRUE(until([&] { return loop->idle() == 6; }));
  EXPECT_TRUE(loop->make_room());
  EXPECT_EQ(receive(idle[1], ""), "<closed>") << "idle[0] has just been served";
  EXPECT_TRUE(silent(idle[0]));
  EXPECT_TRUE(until([&] { return loop->has_room(); }));
}

// 60 MB at 80 KiB/s: below 64 KiB/s it would be given up anyway.
TEST_F(SlowClients, ALargeBodyGetsNoInstanceUntilItHasComeFast) {
  limits.stream_patience = Millis(100);
  limits.stream_rate = 1e9;
  instance("i");
  table({"i"});
  const int slow = connect();
  send(slow, head(60'000'000) + std::string(100'000, 's'));
  ASSERT_TRUE(until([&] { return loop->slow() == 1; }));
  EXPECT_EQ(stats().in_flight, 0);
  EXPECT_THAT(ask(connect(), "quick"), HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(receive(slow, ""), HasSubstr("HTTP/1.1 408"));
  EXPECT_EQ(stats().in_flight, 0);
  EXPECT_EQ(counters().requests, 2u) << "counted nevertheless";
}

TEST_F(SlowClients, AClientThatStillSendsReadsIts429) {
  RoutingTable t = table_of({});
  t.functions["f"].max_queue = 1;
  put(t);
  send(connect(), post("waits"));
  ASSERT_TRUE(until([&] { return stats().queued == 1; }));
  const int c = connect();
  const std::string body(8 << 20, 'b');
  send(c, head(body.size()) + body);  // all of it: nothing resets the connection
  const std::string shed = receive(c, "");
  EXPECT_THAT(shed, HasSubstr("HTTP/1.1 429"));
  EXPECT_THAT(shed, HasSubstr("}<closed>"));
}

TEST_F(SlowClients, AHalfClosedClientGetsItsAnswer) {
  raw_instance("i");
  table({});
  const int c = connect();
  send(c, post("asks and closes"));
  ASSERT_EQ(::shutdown(c, SHUT_WR), 0);
  ASSERT_TRUE(until([&] { return stats().queued == 1; }));
  const Time looked_at = clock.now() + Millis(250);  // twice by then
  until([&] { return clock.now() > looked_at; });
  EXPECT_EQ(counters().gone, 0u);
  table({"i"});
  const Fd i = accepted("i");
  receive(i.get(), "closes");
  send(i.get(), answer("answer"));
  EXPECT_THAT(receive(c, ""), testing::EndsWith("answer<closed>"));
}

// Over TCP a client that has left and one that has closed its sending side look alike.
TEST_F(SlowClients, AClientThatLeavesIsForgottenWhereverItsRequestIs) {
  raw_instance("i");
  table({"i"});
  const int running = connect_tcp(), waiting = connect_tcp();
  send(running, post("running"));
  Fd i = accepted("i");
  receive(i.get(), "running");
  send(waiting, post("waiting"));
  ASSERT_TRUE(until([&] { return stats().queued == 1; }));
  leave(waiting);
  EXPECT_TRUE(until([&] { return stats().queued == 0; }));
  EXPECT_EQ(counters().gone, 1u);
  leave(running);
  EXPECT_EQ(receive(i.get(), ""), "<closed>");
  i.reset();
  EXPECT_TRUE(until([&] { return counters().gone == 2; }));
}

TEST_F(SlowClients, AClientThatClosesItsSendingSideGetsItsAnswerOverTcp) {
  raw_instance("i");
  table({});
  const int newer = connect_tcp(), older = connect_tcp();
  send(newer, post("asks and closes"));
  send(older, "POST /v2/models/f/infer HTTP/1.0\r\nContent-Length: 3\r\n\r\nold");
  for (const int c : {newer, older}) ASSERT_EQ(::shutdown(c, SHUT_WR), 0);
  EXPECT_EQ(receive(newer, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  const Time checked_at = clock.now() + Millis(250);  // twice by then
  until([&] { return clock.now() > checked_at; });
  EXPECT_EQ(stats().queued, 2);
  EXPECT_TRUE(silent(older)) << "HTTP/1.0 knows no interim answer";
  table({"i"});
  const Fd i = accepted("i");
  for (int n = 0; n < 2; ++n) {
    receive(i.get(), "\r\n\r\n");
    send(i.get(), answer("answer"));
  }
  for (const int c : {newer, older})
    EXPECT_THAT(receive(c, ""), testing::EndsWith("answer<closed>"));
}

// A client that has sent a thousand requests alternates with a client that sends its second.
TEST_F(SlowClients, APipelineGoesOnInTurns) {
  std::string many;
  for (int i = 0; i < 100; ++i) many += "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n";
  const int greedy = connect(), other = connect();
  const auto answers = [&](int fd) {
    std::string seen(1 << 20, '\0');
    const ssize_t n = ::recv(fd, seen.data(), seen.size(), MSG_PEEK);
    seen.resize(n > 0 ? static_cast<size_t>(n) : 0);
    size_t count = 0;
    for (size_t at = 0; (at = seen.find("HTTP/1.1", at)) != seen.npos; ++at) ++count;
    return count;
  };
  send(greedy, many);
  send(other, many);
  ASSERT_TRUE(until([&] { return answers(other) >= 10; }));
  EXPECT_LE(answers(greedy), answers(other) + 10);
  EXPECT_TRUE(until([&] { return answers(greedy) == 100 && answers(other) == 100; }));
}

// A path that the gateway and an instance could read differently would run an inference uncounted.
TEST_F(SlowClients, APathHasOneReading) {
  instance("i");
  table({"i"});
  const int c = connect();
  for (const char* path : {"inf%65r", "/infer", "infer/", "./infer", "x/../infer", "infer\\", ""}) {
    send(c, "POST /v2/models/f/" + std::string(path) +
                " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nno");
    EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 404")) << path;
  }
  send(c, "POST //v2/models/f/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nno");
  EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 404"));
  EXPECT_EQ(counters().requests, 0u);
  EXPECT_THAT(ask(c, "yes"), HasSubstr("HTTP/1.1 200"));
}

}  // namespace
}  // namespace sluice::gateway
