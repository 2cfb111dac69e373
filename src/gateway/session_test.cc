// HTTP in a session: it relays, keeps connections, and refuses what two hops could read
// differently.
#include <gmock/gmock.h>

#include "tests/support/gateway_session.h"

namespace sluice::gateway {
namespace {

using testing::HasSubstr;
using testing::Not;
class SessionTest : public SessionFixture {};

TEST_F(SessionTest, RelaysAndKeepsBothConnections) {
  instance("i");
  table({"i"});
  const int c = connect();
  for (int i = 0; i < 3; ++i) {
    const std::string answer = ask(c, "hello" + std::to_string(i), "X-Request-Id: abc\r\n");
    EXPECT_NE(answer.find("HTTP/1.1 200"), answer.npos) << answer;
    EXPECT_NE(answer.find("Seen-Target: /v2/models/f/infer"), answer.npos);
    EXPECT_NE(answer.find("Seen-Trace: 00-"), answer.npos);
  }
  EXPECT_TRUE(until([&] { return counters().ok == 3; })) << counters().ok;
  EXPECT_TRUE(until([&] { return counters().inferences == 12; })) << counters().inferences;
}

TEST_F(SessionTest, LargeAndChunkedBodiesArriveWhole) {
  instance("i");
  table({"i"});
  const int c = connect();
  const std::string large(5 << 20, 'y');
  const std::string answer = ask(c, large + "END");
  EXPECT_NE(answer.find("END"), answer.npos);
  EXPECT_GT(answer.size(), large.size());
  send(c,
       "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
       "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_NE(receive(c, "abcde").find("200"), std::string::npos);
  std::string chunks =
      "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 40; ++i) chunks += "10000\r\n" + std::string(0x10000, 'z') + "\r\n";
  send(c, chunks + "3\r\nEOT\r\n0\r\n\r\n");
  EXPECT_NE(receive(c, "EOT").find("200"), std::string::npos);
  EXPECT_TRUE(until([&] { return counters().ok == 3; })) << counters().ok;
}

TEST_F(SessionTest, PipelinedRequestsAreAnsweredInOrder) {
  instance("i");
  table({"i"});
  const int c = connect();
  send(c,
       "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\noneGET "
       "/v2/health/live "
       "HTTP/1.1\r\nHost: x\r\n\r\n"
       "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: "
       "close\r\n\r\nthree");
  const std::string all = receive(c, "");
  EXPECT_LT(all.find("one"), all.find("live"));
  EXPECT_LT(all.find("live"), all.find("three"));
  EXPECT_NE(all.find("<closed>"), all.npos);
}

TEST_F(SessionTest, WhatIsNotMeantForTheNextHopStaysHere) {
  instance("i");
  table({"i"});
  const int c = connect();
  const std::string answer = ask(c, "body", "Connection: X-Secret\r\nX-Secret: 42\r\n");
  EXPECT_EQ(answer.find("Seen-Secret: 42"), answer.npos);
}

TEST_F(SessionTest, WhatAnInstanceMeansForThisHopDoesNotReachTheClient) {
  raw_instance("i");
  table({"i"});
  const int c = connect();
  send(c, post("a"));
  const Fd i = accepted("i");
  receive(i.get(), "\r\n\r\na");
  send(i.get(), answer("bye", "Connection: X-Hop, keep-alive\r\nX-Hop: 42\r\nX-End: 43\r\n"));
  const std::string got = receive(c, "bye");
  EXPECT_THAT(got, Not(HasSubstr("X-Hop")));
  EXPECT_THAT(got, HasSubstr("X-End: 43"));
}

// Refuses what the next hop could read differently, and closes the connection.
TEST_F(SessionTest, AttacksAreRefused) {
  instance("i");
  table({"i"});
  const std::string post = "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\n";
  struct Case {
    const char* name;
    std::string bytes;
    const char* status;
  };
  const std::vector<Case> cases{
      {"length and coding",
       post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
      {"two lengths", post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "400"},
      {"negative length", post + "Content-Length: -1\r\n\r\n", "400"},
      {"unknown coding", post + "Transfer-Encoding: gzip\r\n\r\n", "400"},
      {"doubled coding", post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "400"},
      {"coding in 1.0",
       "POST /v2/models/f/infer HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
      {"space in a name", post + "Content-Length : 3\r\n\r\nabc", "400"},
      {"bare line feed", "GET /v2/health/live HTTP/1.1\nHost: x\n\n", "400"},
      {"nonsense", "\x16\x03\x01\x02\r\n\r\n", "400"},
      {"huge head", post + "A: " + std::string(40'000, 'a') + "\r\n\r\n", "431"},
      {"signed length", post + "Content-Length: +3\r\n\r\nabc", "400"},
      {"lengths in a list", post + "Content-Length: 3, 4\r\n\r\nabcd", "400"},
      {"two codings", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n", "400"},
      {"coding behind a tab", post + "Transfer-Encoding:\vchunked\r\n\r\n0\r\n\r\n", "400"},
      {"folded line", post + "A: b\r\n c\r\nContent-Length: 0\r\n\r\n", "400"},
      {"folded length", post + "Content-Length:\r\n 3\r\n\r\nabc", "400"},
      {"two hosts", post + "Host: y\r\n\r\n", "400"},
      {"no host", "GET /v2/health/live HTTP/1.1\r\n\r\n", "400"},
      {"no such version", "GET /v2/health/live HTTP/2.0\r\nHost: x\r\n\r\n", "400"},
      {"nul in a value", post + std::string("A: b\0c\r\n\r\n", 10), "400"},
      {"bare line feed in a chunk", post + "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
       "400"},
      {"chunk longer than said", post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
       "400"},
      {"chunk size of 17 digits",
       post + "Transfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n", "400"},
      {"chunk size in C", post + "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n", "400"},
      {"endless extension",
       post + "Transfer-Encoding: chunked\r\n\r\n3;" + std::string(40'000, 'e'), "400"},
      {"broken chunk", post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
  };
  for (const Case& attack : cases) {
    const int c = connect();
    send(c, attack.bytes);
    const std::string answer = receive(c, "");
    EXPECT_EQ(answer.substr(9, 3), attack.status) << attack.name << ": " << answer.substr(0, 200);
    EXPECT_NE(answer.find("<closed>"), answer.npos) << attack.name;
  }
  EXPECT_NE(ask(connect(), "still here").find("200"), std::string::npos);
}

TEST_F(SessionTest, TwoFramingsAreNamedWhicheverComesFirst) {
  table({});
  const std::string length = "Content-Length: 3\r\n", coding = "Transfer-Encoding: chunked\r\n";
  struct Case {
    std::string fields;
    const char* why;
  };
  for (const Case& test : {Case{length + coding, "not allowed beside Transfer-Encoding"},
                           Case{coding + length, "not allowed beside Transfer-Encoding"},
                           Case{coding + coding, "Transfer-Encoding: given twice"},
                           Case{length + "Content-Length: 4\r\n", "given twice and different"},
                           Case{"Content-Length: three\r\n", "must be one whole number"}}) {
    const int c = connect();
    send(c, "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\n" + test.fields + "\r\n");
    EXPECT_THAT(receive(c, ""), HasSubstr(test.why)) << test.fields;
  }
}

TEST_F(SessionTest, EmptyLinesBeforeARequestAreSkipped) {
  instance("i");
  table({"i"});
  const int c = connect();
  for (const char* before : {"\r\n", "\r\n\r\n\r\n", "\r", ""}) {
    send(c, before);
    ASSERT_TRUE(until([&] { return loop->idle() == 1; })) << "not within a request";
    if (before == std::string("\r")) send(c, "\n");
    EXPECT_THAT(ask(c, "hello"), HasSubstr("HTTP/1.1 200"));
  }
  send(c, "\n");
  EXPECT_THAT(receive(c, ""), HasSubstr("HTTP/1.1 400")) << "no line of HTTP ends so";
}

TEST_F(SessionTest, AnswersForItselfAndFor404And405) {
  table({});
  const int c = connect();
  const auto get = [&](const std::string& line, std::string_view end) {
    send(c, line + " HTTP/1.1\r\nHost: x\r\n\r\n");
    return receive(c, end);
  };
  EXPECT_NE(get("GET /v2", "}").find("\"name\":\"sluice\""), std::string::npos);
  EXPECT_NE(get("GET /v2/models", "}").find("[\"f\"]"), std::string::npos);
  EXPECT_NE(get("POST /v2/repository/index", "]").find("LOADING"), std::string::npos);
  EXPECT_NE(get("POST /v2/repository/models/f/load", "{}").find("200"), std::string::npos);
  EXPECT_NE(get("POST /v2/repository/models/f/unload", "}").find("sluice delete"),
            std::string::npos);
  EXPECT_NE(get("POST /v2/repository/models/g/load", "}").find("404"), std::string::npos);
  EXPECT_NE(get("GET /v2/models/stats", "]}").find("\"inference_count\":0"), std::string::npos);
  EXPECT_NE(get("GET /metrics", "_count{").find("nv_inference_request_success"), std::string::npos);
  EXPECT_NE(get("DELETE /v2", "}").find("405"), std::string::npos);
  EXPECT_NE(get("GET /nothing", "}").find("404"), std::string::npos);
  EXPECT_NE(get("GET /v2/models/nobody/ready", "}").find("404"), std::string::npos);
  const std::string head = get("HEAD /v2/health/live", "\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 13"), std::string::npos) << head;
  EXPECT_EQ(head.find("live\":"), std::string::npos);
}

TEST_F(SessionTest, TheAbsoluteFormIsTakenApart) {
  instance("i");
  table({"i"});
  const int c = connect();
  send(c,
       "POST http://there:80/v2/models/f/infer?a=b HTTP/1.1\r\nHost: here\r\n"
       "Content-Length: 2\r\n\r\nok");
  const std::string answer = receive(c, "\r\n\r\nok");
  EXPECT_THAT(answer, HasSubstr("Seen-Target: /v2/models/f/infer?a=b\r\n"));
  EXPECT_THAT(answer, HasSubstr("Seen-Host: there:80\r\n"));
}

TEST_F(SessionTest, AnUpgradeIsRefusedAndTheConnectionGoesOn) {
  instance("i");
  table({"i"});
  const int c = connect();
  send(c,
       "GET /v2/models/f/stream HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
       "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n");
  EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 501"));
  EXPECT_THAT(ask(c, "plain"), HasSubstr("HTTP/1.1 200"));
}

// HTTP/1.0 has no upgrades: the field is ignored there (RFC 9110 §7.8).
TEST_F(SessionTest, AnUpgradeInHttp10IsIgnored) {
  instance("i");
  table({"i"});
  const int c = connect();
  send(c,
       "POST /v2/models/f/infer HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
       "Content-Length: 5\r\n\r\nhello");
  EXPECT_THAT(receive(c, ""), testing::AllOf(HasSubstr("HTTP/1.1 200"), HasSubstr("hello")));
}

TEST_F(SessionTest, AHeadHasNoBodyAndTheConnectionGoesOn) {
  raw_instance("i");
  table({"i"});
  const int c = connect();
  send(c, "HEAD /v2/models/f HTTP/1.1\r\nHost: x\r\n\r\n" + post("next"));
  const Fd i = accepted("i");
  EXPECT_THAT(receive(i.get(), "\r\n\r\n"), HasSubstr("HEAD /v2/models/f HTTP/1.1"));
  send(i.get(), "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
  EXPECT_THAT(receive(c, "\r\n\r\n"), HasSubstr("Content-Length: 1000"));
  EXPECT_THAT(receive(i.get(), "next"), HasSubstr("POST")) << "on the same connection";
  send(i.get(), answer("done"));
  EXPECT_THAT(receive(c, "done"), HasSubstr("200"));
}

TEST_F(SessionTest, SpeaksWithHttp10) {
  raw_instance("i");
  table({"i"});
  // Without a length and without chunks the end of the connection is the end of the answer.
  const int c = connect();
  send(c, "GET /v2/models/f HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const Fd i = accepted("i");
  EXPECT_THAT(receive(i.get(), "\r\n\r\n"), HasSubstr("GET /v2/models/f HTTP/1.1\r\nHost: \r\n"));
  send(i.get(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  const std::string whole = receive(c, "");
  EXPECT_THAT(whole, testing::EndsWith("Connection: close\r\n\r\nabc<closed>"));
  EXPECT_THAT(whole, Not(HasSubstr("Transfer-Encoding")));
  // With a length it can go on, and says so.
  const int d = connect();
  send(d, "GET /v2/models/f HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  receive(i.get(), "\r\n\r\n");
  send(i.get(), answer("def"));
  EXPECT_THAT(receive(d, "def"), HasSubstr("Connection: keep-alive\r\n"));
  send(d, "GET /v2/health/live HTTP/1.0\r\n\r\n");
  EXPECT_THAT(receive(d, ""), HasSubstr("Connection: close\r\n"));
}

TEST_F(SessionTest, AnswersInChunksOrUntilTheConnectionEndsArriveWhole) {
  raw_instance("i");
  table({"i"});
  const int c = connect();
  send(c, post("a"));
  Fd i = accepted("i");
  receive(i.get(), "\r\n\r\na");
  send(i.get(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  EXPECT_THAT(receive(c, "abc"), HasSubstr("Transfer-Encoding: chunked")) << "as it comes";
  send(i.get(), "2;x=y\r\nde\r\n0\r\nContent-Length: 7\r\n\r\n");
  EXPECT_THAT(receive(c, "0\r\n\r\n"), testing::EndsWith("2\r\nde\r\n0\r\n\r\n"))
      << "without the trailer";
  send(c, post("b"));
  receive(i.get(), "\r\n\r\nb");
  send(i.get(), "HTTP/1.1 200 OK\r\n\r\nuntil the end");
  i.reset();
  EXPECT_THAT(receive(c, "0\r\n\r\n"), HasSubstr("d\r\nuntil the end\r\n0\r\n\r\n"));
  EXPECT_TRUE(until([&] { return counters().ok == 2; })) << counters().ok;
}

TEST_F(SessionTest, AnAnswerWithoutABodyIsOne) {
  raw_instance("i");
  table({"i"});
  const int c = connect();
  send(c, post("a"));
  const Fd i = accepted("i");
  receive(i.get(), "\r\n\r\na");
  send(i.get(), "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 204 None\r\n\r\n");
  const std::string empty = receive(c, "\r\n\r\n");
  EXPECT_THAT(empty, HasSubstr("HTTP/1.1 204"));
  EXPECT_THAT(empty, Not(HasSubstr("Content-Length")));
  send(c, post("b"));
  EXPECT_THAT(receive(i.get(), "\r\n\r\nb"), HasSubstr("POST"));
}

TEST_F(SessionTest, AnInstanceThatClosesAfterItsAnswerIsAskedOnANewConnection) {
  raw_instance("i");
  table({"i"});
  const int c = connect();
  for (int round = 0; round < 3; ++round) {
    send(c, post("a"));
    const Fd i = accepted("i");
    receive(i.get(), "\r\n\r\na");
    send(i.get(), answer("bye", round % 2 == 0 ? "Connection: close\r\n" : ""));
    EXPECT_THAT(receive(c, "bye"), HasSubstr("200"));
  }
  EXPECT_EQ(counters().retried, 0u);
}

TEST_F(SessionTest, RequestsAreInvitedBeforeTheyTakeAPlace) {
  instance("i");
  table({"i"});
  const std::string small = "small", large(2 << 20, 'l');
  for (const std::string* body : {&small, &large}) {
    const int c = connect();
    send(c,
         "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
         "Content-Length: " +
             std::to_string(body->size()) + "\r\n\r\n");
    EXPECT_EQ(receive(c, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    EXPECT_EQ(stats().queued + stats().in_flight, 0);
    send(c, *body);
    EXPECT_THAT(receive(c, *body), HasSubstr("200"));
  }
}

}  // namespace
}  // namespace sluice::gateway
