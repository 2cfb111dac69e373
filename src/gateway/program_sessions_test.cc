// Functions that are programs of any kind, asked below /functions/NAME/: what reaches the program,
// what does not, and what is sent to it again.
#include <gmock/gmock.h>

#include "gateway/head.h"
#include "tests/support/gateway_session.h"

namespace sluice::gateway {
namespace {

using testing::HasSubstr;
using testing::Not;

class ProgramSessions : public SessionFixture {
 protected:
  void program(const std::vector<std::string>& ids) {
    RoutingTable t = table_of(ids);
    t.functions["f"].http = true;
    put(t);
  }
  static std::string request(std::string_view method, std::string_view target,
                             std::string_view extra = "") {
    return std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: site\r\n" +
           std::string(extra) + "\r\n";
  }
  // Returns the head that a raw instance gets.
  std::string arrives_as(std::string_view method, std::string_view target,
                         std::string_view extra = "") {
    const std::string id = "i" + std::to_string(raw.size());
    raw_instance(id);
    program({id});
    const int c = connect();
    send(c, request(method, target, extra));
    const Fd i = accepted(id);
    std::string head = receive(i.get(), "\r\n\r\n");
    send(i.get(), answer("done"));
    receive(c, "done");
    return head;
  }
};

TEST_F(ProgramSessions, AnyMethodAndPathArriveAsTheProgramKnowsThem) {
  struct Case {
    std::string_view method, asked, arrives;
  };
  for (const auto& [method, asked, arrives] :
       {Case{"GET", "/functions/f/a/b?c=d%2F..", "GET /a/b?c=d%2F.. HTTP/1.1\r\n"},
        Case{"DELETE", "/functions/f/a%20b//c/", "DELETE /a%20b//c/ HTTP/1.1\r\n"},
        Case{"PROPFIND", "/functions/f/", "PROPFIND / HTTP/1.1\r\n"},
        Case{"GET", "/functions/f", "GET / HTTP/1.1\r\n"},
        Case{"GET", "http://site/functions/f/x", "GET /x HTTP/1.1\r\n"}})
    EXPECT_THAT(arrives_as(method, asked), testing::StartsWith(std::string(arrives)));
}

TEST_F(ProgramSessions, XForwardedFieldsAreTheGateways) {
  const std::string seen = arrives_as("GET", "/functions/f/x",
                                      "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Prefix: /evil\r\n"
                                      "Forwarded: for=6.6.6.6\r\nX-Own: 1\r\n");
  EXPECT_THAT(seen, HasSubstr("X-Forwarded-Host: site\r\n"));
  EXPECT_THAT(seen, HasSubstr("X-Forwarded-Proto: http\r\n"));
  EXPECT_THAT(seen, HasSubstr("X-Forwarded-Prefix: /functions/f\r\n"));
  EXPECT_THAT(seen, HasSubstr("X-Own: 1\r\n"));
  EXPECT_THAT(seen, Not(HasSubstr("6.6.6.6")));
  EXPECT_THAT(seen, Not(HasSubstr("evil")));
}

TEST_F(ProgramSessions, TheClientsAddressIsReported) {
  raw_instance("i");
  program({"i"});
  send(connect_tcp(), request("GET", "/functions/f/x"));
  const Fd i = accepted("i");
  EXPECT_THAT(receive(i.get(), "\r\n\r\n"), HasSubstr("X-Forwarded-For: 127.0.0.1\r\n"));
}

// As the gateway reads it, and as a program may that decodes a path first.
TEST_F(ProgramSessions, APathThatCouldLeadElsewhereIsRefused) {
  for (const std::string_view path :
       {"/functions/f/..", "/functions/f/../v1", "/functions/f/a/%2e%2e/b", "/functions/f/.%2E/b",
        "/functions/f/a%2fb", "/functions/f/a%5Cb", "/functions/f/a\\b", "/functions/f/./a",
        "/functions/../f/a", "/functions//a", "/functions/", "/functions/f?a"})
    EXPECT_FALSE(function_path(path)) << path;
  for (const std::string_view path :
       {"/functions/f/a..b/...", "/functions/f/%252e%252e", "/functions/f/?..", "/functions/f/%2"})
    EXPECT_TRUE(function_path(path)) << path;
}

TEST_F(ProgramSessions, EachKindIsAskedAtItsPath) {
  instance("i");
  program({"i"});
  const int c = connect();
  send(c, post("x"));
  EXPECT_THAT(receive(c, "}"), HasSubstr("'f' is asked below /functions/f/"));
  table({"i"});
  send(c, request("GET", "/functions/f/x"));
  EXPECT_THAT(receive(c, "}"), HasSubstr("'f' is asked below /v2/models/f/"));
}

// Each piece of an answer without a length goes on when it comes, and each request counts.
TEST_F(ProgramSessions, AnAnswerStreams) {
  raw_instance("i");
  program({"i"});
  const int c = connect();
  send(c, request("GET", "/functions/f/events"));
  const Fd i = accepted("i");
  receive(i.get(), "\r\n\r\n");
  send(i.get(),
       "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
       "chunked\r\n\r\n9\r\ndata: 1\n\n\r\n");
  EXPECT_THAT(receive(c, "data: 1\n\n"), HasSubstr("text/event-stream"));
  EXPECT_EQ(counters().ok, 0u);
  send(i.get(), "9\r\ndata: 2\n\n\r\n0\r\n\r\n");
  EXPECT_THAT(receive(c, "0\r\n\r\n"), HasSubstr("data: 2\n\n"));
  EXPECT_TRUE(until([&] { return counters().ok == 1; }));
  EXPECT_EQ(counters().inferences, 1u);
}

// Unless it may be answered twice (RFC 9110 §9.2.2).
TEST_F(ProgramSessions, ARequestIsSentAgainOnlyIfItMayBe) {
  for (const auto& [method, again] : {std::pair("POST", false), {"PUT", true}}) {
    SCOPED_TRACE(method);
    const std::string dies = std::string(method) + "-dies", lives = std::string(method) + "-lives";
    raw_instance(dies);
    program({dies});
    const int c = connect();
    send(c, request(method, "/functions/f/x", "Content-Length: 1\r\n") + "b");
    Fd i = accepted(dies);
    receive(i.get(), "\r\n\r\nb");
    instance(lives);
    program({dies, lives});
    i.reset();
    const std::string got = receive(c, again ? "\r\n\r\nb" : "}");
    EXPECT_THAT(got, HasSubstr(again ? "HTTP/1.1 200" : "such a request is not sent again"));
  }
}

// A kept connection may be closing, and a request lost on it is one that may have been answered.
TEST_F(ProgramSessions, APostGoesOnANewConnection) {
  raw_instance("i");
  program({"i"});
  const int c = connect();
  for (int round = 0; round < 2; ++round) {
    send(c, request("POST", "/functions/f/x", "Content-Length: 1\r\n") + "b");
    const Fd i = accepted("i");
    receive(i.get(), "\r\n\r\nb");
    send(i.get(), answer("done"));
    EXPECT_THAT(receive(c, "done"), HasSubstr("HTTP/1.1 200"));
  }
}

TEST_F(ProgramSessions, ThePlatformsTokenStaysHere) {
  raw_instance("i");
  RoutingTable t = table_of({"i"});
  t.functions["f"].http = true;
  t.functions["f"].token = "secret";
  put(t);
  const int c = connect();
  send(c, request("GET", "/functions/f/x"));
  EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 401"));
  send(c, request("GET", "/functions/f/x", "Authorization: Bearer secret\r\n"));
  const Fd i = accepted("i");
  EXPECT_THAT(receive(i.get(), "\r\n\r\n"), Not(HasSubstr("secret")));
}

TEST_F(ProgramSessions, AnUpgradeIsRefusedInASentence) {
  instance("i");
  program({"i"});
  const int c = connect();
  send(c, request("GET", "/functions/f/x", "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
  EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 501"));
}

}  // namespace
}  // namespace sluice::gateway
