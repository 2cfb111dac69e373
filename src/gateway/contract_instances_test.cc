// The gateway's contract with users and operators, line by line: what an answer is when an
// instance dies, breaks off, or leaves.
#include <gmock/gmock.h>

#include "tests/support/gateway_contract.h"

namespace sluice::gateway {
namespace {

using testing::HasSubstr;

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

// As one that is cut off: its kernel confirms nothing. The queue of a listener that accepts nothing
// does the same once it is full.
TEST_F(Contract, AnInstanceWhoseMachineIsSilentIsGivenUpWithinSeconds) {
  const Fd silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{.sin_family = AF_INET};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(::bind(silent.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(::listen(silent.get(), 0), 0);
  ASSERT_EQ(::getsockname(silent.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  std::vector<Fd> queue;
  for (int i = 0; i < 4; ++i) {
    queue.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(queue.back().get(), reinterpret_cast<sockaddr*>(&at), size);
  }
  RoutingTable t = table_of({"i"});
  t.functions["f"].instances[0].socket = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  put(t);
  const int c = connect();
  send(c, post("again"));
  instance("k");
  t.functions["f"].instances.push_back(table_of({"k"}).functions["f"].instances[0]);
  put(t);
  EXPECT_THAT(receive(c, "\r\n\r\nagain"), HasSubstr("HTTP/1.1 200"));
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

}  // namespace
}  // namespace sluice::gateway
