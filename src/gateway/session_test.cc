// Sessions over socket pairs, with instances that are HTTP servers in the same loop.
#include "gateway/session.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <filesystem>

#include "wire/http.h"

namespace sluice::gateway {
namespace {

using wire::HttpRequest;
using wire::HttpResponse;

class SessionTest : public testing::Test {
 protected:
  SessionTest() {
    char dir[] = "/tmp/sluice-gw-XXXXXX";
    dir_ = mkdtemp(dir);
    asio::co_spawn(loop.io, loop.sweep_all(), asio::detached);
  }
  ~SessionTest() override {
    for (Fd& c : clients) c.reset();
    loop.stop();
    instances.clear();
    until([&] { return loop.sessions.empty(); });
    loop.io.stop();
    std::filesystem::remove_all(dir_);
  }

  using Answer = std::function<wire::asio::awaitable<HttpResponse>(HttpRequest)>;
  static wire::asio::awaitable<HttpResponse> echo(HttpRequest request) {
    HttpResponse r = wire::text_response(request.body());
    r.set("Sluice-Inferences", "4");
    r.set("Seen-Target", request.target());
    r.set("Seen-Secret", request["X-Secret"]);
    r.set("Seen-Trace", request["traceparent"]);
    co_return r;
  }
  std::string instance(const std::string& id, Answer answer = echo) {
    const std::string path = dir_ + "/" + id;
    instances[id] = std::make_unique<wire::HttpServer>(
        loop.io, std::move(*wire::listen_on({.path = path})), std::move(answer));
    return path;
  }
  void table(const std::vector<std::string>& ids, int max_queue = 10, Nanos timeout = Seconds(20)) {
    RoutingTable t;
    FunctionRoute f{
        .name = {.name = "f"}, .timeout = timeout, .max_queue = max_queue, .split = {{1, 100}}};
    for (const auto& id : ids)
      f.instances.push_back(
          {.id = id, .revision = 1, .socket = dir_ + "/" + id, .capability = 1, .ready = true});
    t.functions["f"] = f;
    dispatcher.set_table(t, clock.now());
  }

  int connect() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    clients.emplace_back(pair[0]);
    asio::co_spawn(loop.io,
                   serve(loop,
                         std::make_unique<PlainStream>(
                             Socket(loop.io, asio::generic::stream_protocol(AF_UNIX, 0), pair[1])),
                         limits, local),
                   asio::detached);
    return pair[0];
  }
  // Runs the loop until it is true; ten seconds are for ever.
  template <class Predicate>
  bool until(Predicate p) {
    const Time end = clock.now() + Seconds(10);
    while (!p() && clock.now() < end) loop.io.run_one_for(Millis(20));
    return p();
  }
  void send(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
      if (n < 0 && errno != EAGAIN) break;
      loop.io.run_one_for(Millis(1));
    }
  }
  std::string receive(int fd, std::string_view until_text) {
    std::string all;
    bool closed = false;
    until([&] {
      char chunk[65536];
      ssize_t n;
      while ((n = ::recv(fd, chunk, sizeof(chunk), 0)) > 0)
        all.append(chunk, static_cast<size_t>(n));
      closed = n == 0 || (n < 0 && errno != EAGAIN);
      return closed || (!until_text.empty() && all.find(until_text) != all.npos);
    });
    if (closed) all += "<closed>";
    return all;
  }
  std::string ask(int fd, std::string_view body, std::string_view extra = "") {
    send(fd, "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\n" + std::string(extra) +
                 "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
    return receive(fd, body);
  }
  Counters counters() { return dispatcher.stats(clock.now())[0].counters; }

  SteadyClock clock;
  Dispatcher dispatcher;
  LocalAnswers local{dispatcher, "test"};
  SessionLimits limits;
  Loop loop{dispatcher, clock};
  std::map<std::string, std::unique_ptr<wire::HttpServer>> instances;
  std::deque<Fd> clients;
  std::string dir_;
};

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

TEST_F(SessionTest, HoldsTheFirstRequestUntilAnInstanceIsThere) {
  table({});
  const int c = connect();
  send(c, "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nfirst");
  EXPECT_TRUE(until([&] { return dispatcher.stats(clock.now())[0].queued == 1; }));
  instance("i");
  table({"i"});
  EXPECT_NE(receive(c, "first").find("HTTP/1.1 200"), std::string::npos);
  EXPECT_TRUE(until([&] { return counters().cold_starts == 1; })) << counters().cold_starts;
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

TEST_F(SessionTest, AnInstanceThatDiesBeforeItsAnswerIsReplacedByAnother) {
  // One that accepts and hangs up: what a killed process looks like.
  const std::string path = dir_ + "/dying";
  Fd dying = std::move(*wire::listen_on({.path = path}));
  table({"dying"});
  const int c = connect();
  send(c, "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nagain");
  ASSERT_TRUE(until([&] { return dispatcher.stats(clock.now())[0].in_flight == 1; }));
  instance("i");
  table({"dying", "i"});
  until([&] {
    return false || [&] {
      ::fcntl(dying.get(), F_SETFL, O_NONBLOCK);
      const int fd = ::accept(dying.get(), nullptr, nullptr);
      if (fd >= 0) ::close(fd);
      return fd >= 0;
    }();
  });
  EXPECT_NE(receive(c, "again").find("HTTP/1.1 200"), std::string::npos);
  EXPECT_TRUE(until([&] { return counters().retried == 1; })) << counters().retried;
}

TEST_F(SessionTest, AClientThatLeavesGivesUpItsPlace) {
  table({});
  const int c = connect();
  send(c, "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx");
  ASSERT_TRUE(until([&] { return dispatcher.stats(clock.now())[0].queued == 1; }));
  clients.back().reset();
  EXPECT_TRUE(until([&] { return counters().gone == 1; }));
  EXPECT_EQ(dispatcher.stats(clock.now())[0].queued, 0);
  (void)c;
}

TEST_F(SessionTest, TimesOutWith504AndShedsWith429) {
  table({}, 1, Millis(200));
  const int a = connect(), b = connect();
  send(a, "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx");
  ASSERT_TRUE(until([&] { return dispatcher.stats(clock.now())[0].queued == 1; }));
  const std::string shed = ask(b, "y");
  send(b, "");
  EXPECT_NE(receive(a, "timed out").find("504"), std::string::npos);
  EXPECT_TRUE(until([&] { return counters().timed_out == 1; })) << counters().timed_out;
  EXPECT_TRUE(until([&] { return counters().shed == 1; })) << counters().shed;
}

TEST_F(SessionTest, WhatIsNotMeantForTheNextHopStaysHere) {
  instance("i");
  table({"i"});
  const int c = connect();
  const std::string answer = ask(c, "body", "Connection: X-Secret\r\nX-Secret: 42\r\n");
  EXPECT_EQ(answer.find("Seen-Secret: 42"), answer.npos);
}

// What the next hop could read differently is refused, and the connection closed.
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
  EXPECT_NE(get("GET /metrics", "_count{").find("nv_inference_request_success"), std::string::npos);
  EXPECT_NE(get("DELETE /v2", "}").find("405"), std::string::npos);
  EXPECT_NE(get("GET /nothing", "}").find("404"), std::string::npos);
  EXPECT_NE(get("GET /v2/models/nobody/ready", "}").find("404"), std::string::npos);
  const std::string head = get("HEAD /v2/health/live", "\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 13"), std::string::npos) << head;
  EXPECT_EQ(head.find("live\":"), std::string::npos);
}

}  // namespace
}  // namespace sluice::gateway
