// For tests of sessions: a loop run by the test, clients over socket pairs, and instances that are
// HTTP servers in the same loop, or raw sockets under the test's full control.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <deque>

#include "gateway/session.h"
#include "tests/support/folder.h"
#include "wire/http/http.h"

namespace sluice::gateway {

using wire::HttpRequest;
using wire::HttpResponse;

class SessionFixture : public testing::Test {
 protected:
  explicit SessionFixture(std::string platform_token = {}) : dispatcher(std::move(platform_token)) {
    asio::co_spawn(loop->io, loop->sweep_all(), asio::detached);
  }
  ~SessionFixture() override {
    for (Fd& c : clients) c.reset();
    loop->stop();
    instances.clear();
    until([&] { return loop->sessions() == 0; });
    loop->io.stop();
  }

  // A loop with other limits, before there are clients and instances.
  void use(LoopLimits limits_of_loop) { use(limits_of_loop, clock); }
  void use(LoopLimits limits_of_loop, const Clock& of_loop) {
    loop->stop();
    loop->io.run();
    loop = std::make_unique<Loop>(dispatcher, of_loop, 1, limits_of_loop);
    asio::co_spawn(loop->io, loop->sweep_all(), asio::detached);
  }

  // ---- instances -------------------------------------------------------------------------------

  using Answer = std::function<wire::asio::awaitable<HttpResponse>(HttpRequest)>;
  // Answers with the request's body, and with the rest of the request as seen.
  static wire::asio::awaitable<HttpResponse> echo(HttpRequest request) {
    HttpResponse r = wire::text_response(request.body());
    r.set("Sluice-Inferences", "4");
    r.set("Seen-Target", request.target());
    r.set("Seen-Host", request["Host"]);
    r.set("Seen-Secret", request["X-Secret"]);
    r.set("Seen-Token", request["Authorization"]);
    r.set("Seen-Trace", request["traceparent"]);
    r.set("Seen-Time-Left", request["Sluice-Time-Left"]);
    r.set("Seen-Id", request["X-Request-Id"]);
    co_return r;
  }
  void instance(const std::string& id, Answer answer = echo) {
    instances[id] = std::make_unique<wire::HttpServer>(
        loop->io, std::move(*wire::listen_on({.path = folder_.path + "/" + id})), std::move(answer),
        wire::HttpLimits{.body_bytes = 64 << 20});
  }
  // Listens and does nothing by itself: accepted() takes its next connection.
  void raw_instance(const std::string& id) {
    raw[id] = std::move(*wire::listen_on({.path = folder_.path + "/" + id}));
    ::fcntl(raw[id].get(), F_SETFL, O_NONBLOCK);
  }
  Fd accepted(const std::string& id) {
    Fd connection;
    until([&] {
      if (!connection.valid())
        connection.reset(::accept4(raw[id].get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      return connection.valid();
    });
    EXPECT_TRUE(connection.valid()) << "nobody connected to " << id;
    return connection;
  }

  RoutingTable table_of(const std::vector<std::string>& ids) const {
    RoutingTable t;
    FunctionRoute f;
    f.name.name = "f";
    f.max_queue = 10;
    f.split = {{1, 100}};
    for (const auto& id : ids) {
      InstanceRoute i;
      i.id = id;
      i.revision = 1;
      i.socket = folder_.path + "/" + id;
      i.capability = 1;
      i.ready = true;
      f.instances.push_back(std::move(i));
    }
    t.functions["f"] = f;
    return t;
  }
  void table(const std::vector<std::string>& ids) { put(table_of(ids)); }
  void put(const RoutingTable& t) { dispatcher.set_table(t, clock.now()); }

  // ---- clients ---------------------------------------------------------------------------------

  int connect(uint64_t peer = 0) {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    serve_on(Socket(loop->io, asio::generic::stream_protocol(AF_UNIX, 0), pair[1]), peer);
    return clients.emplace_back(pair[0]).get();
  }
  // Connects over TCP, where a client that leaves looks like one that closes only its sending side.
  int connect_tcp() {
    const Fd listening = std::move(*wire::listen_on({.host = "127.0.0.1", .port = 0}));
    sockaddr_in at{};
    socklen_t size = sizeof at;
    ::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&at), &size);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&at), size), 0);
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
    const int served = ::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    serve_on(Socket(loop->io, asio::generic::stream_protocol(AF_INET, IPPROTO_TCP), served), 0);
    return clients.emplace_back(fd).get();
  }
  void serve_on(Socket socket, uint64_t peer) {
    asio::co_spawn(
        loop->io,
        serve(*loop, std::make_unique<PlainStream>(std::move(socket)), limits, local, peer),
        asio::detached);
  }
  // Closes both directions, as a client does that ends.
  void leave(int fd) { std::ranges::find(clients, fd, &Fd::get)->reset(); }
  // Runs the loop until it is true; gives up after ten seconds.
  template <class Predicate>
  bool until(Predicate p) {
    const Time end = clock.now() + Seconds(10);
    while (!p() && clock.now() < end) loop->io.run_one_for(Millis(5));
    return p();
  }
  void send(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
      if (n < 0 && errno != EAGAIN) break;
      loop->io.run_one_for(Millis(1));
    }
  }
  // Returns the text received until it contains `until_text`, or until the end, which shows as
  // "<closed>".
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
  bool silent(int fd) {
    char byte;
    return ::recv(fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
  }
  static std::string post(std::string_view body, std::string_view extra = "") {
    return "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\n" + std::string(extra) +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }
  std::string ask(int fd, std::string_view body, std::string_view extra = "") {
    send(fd, post(body, extra));
    return receive(fd, body);
  }
  static std::string answer(std::string_view body, std::string_view extra = "") {
    return "HTTP/1.1 200 OK\r\n" + std::string(extra) +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }

  FunctionStats stats() { return dispatcher.stats(clock.now())[0]; }
  Counters counters() { return stats().counters; }

  SteadyClock clock;
  ManualClock manual;  // for a loop in virtual time
  Dispatcher dispatcher;
  LocalAnswers local{dispatcher, "test"};
  SessionLimits limits;
  std::unique_ptr<Loop> loop = std::make_unique<Loop>(dispatcher, clock);
  std::map<std::string, std::unique_ptr<wire::HttpServer>> instances;
  std::map<std::string, Fd> raw;
  std::deque<Fd> clients;
  const TemporaryFolder folder_;
};

}  // namespace sluice::gateway
