// What a server's limits protect against: clients without a token, idle and slow ones, and clients
// that send much and read nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "tests/support/eventually.h"
#include "tests/support/http.h"

namespace sluice::wire {
namespace {

constexpr std::string_view kGet = "GET /x HTTP/1.1\r\nHost: x\r\n\r\n";

std::string post(size_t length, std::string_view target = "/x") {
  return "POST " + std::string(target) +
         " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
}

std::optional<HttpResponse> wants_token(const HttpHead& head) {
  if (head[http::field::authorization] == "Bearer secret") return std::nullopt;
  return error_response(401, "a token is wanted");
}

TEST(HttpAdmission, RefusesByTheHeadBeforeABodyIsSent) {
  Serving server(echo, {}, wants_token);
  Raw client(server.endpoint);
  client.send(post(1 << 20));
  EXPECT_NE(client.receive_all().find("401"), std::string::npos);
}

// Also while the body is on its way: a reset must not overtake the answer.
TEST(HttpAdmission, TheRefusalReachesAClientThatSendsOn) {
  asio::io_context io;
  Fd listening = std::move(*listen_on({.host = "127.0.0.1"}));
  const Endpoint at = *bound_to(listening);
  HttpServer server(io, std::move(listening), echo, {}, wants_token);
  std::thread serving([&] { io.run(); });
  HttpClient client(at);
  const auto refused = client.call(http::verb::post, "/x", std::string(3 << 20, 'b'));
  io.stop();
  serving.join();
  ASSERT_TRUE(refused.ok()) << refused.error().message;
  EXPECT_EQ(refused->result_int(), 401u);
}

TEST(HttpAdmission, ARefusedRequestWithoutABodyKeepsItsConnection) {
  Serving server(echo, {}, wants_token);
  Raw client(server.endpoint);
  client.send(kGet);
  EXPECT_NE(client.receive().find("401"), std::string::npos);
  client.send("GET /x HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n");
  EXPECT_NE(client.receive().find("200"), std::string::npos);
}

TEST(HttpLimits, TheIdlestConnectionGoesForANewOne) {
  Serving server(echo, {.connections = 2});
  Raw first(server.endpoint), second(server.endpoint);
  for (Raw* client : {&second, &first}) {
    client->send(kGet);
    EXPECT_NE(client->receive().find("200"), std::string::npos);
  }
  Raw third(server.endpoint);
  third.send(kGet);
  EXPECT_NE(third.receive().find("200"), std::string::npos);
  EXPECT_EQ(second.receive(), "");
  first.send(kGet);
  EXPECT_NE(first.receive().find("200"), std::string::npos);
}

// A handler that answers /held when released.
class Held {
 public:
  asio::awaitable<HttpResponse> operator()(HttpRequest request) {
    ++asked;
    asio::steady_timer pause(co_await asio::this_coro::executor);
    while (request.target() == "/held" && !let_go) {
      pause.expires_after(Millis(1));
      co_await pause.async_wait(asio::use_awaitable);
    }
    co_return text_response("");
  }
  std::atomic<int> asked = 0;
  std::atomic<bool> let_go = false;
};

TEST(HttpLimits, AConnectionStaysWhileItsRequestIsInHand) {
  Held held;
  Serving server(std::ref(held), {.connections = 1});
  Raw first(server.endpoint);
  first.send("GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(eventually("the first request", [&] { return held.asked == 1; }));
  Raw second(server.endpoint);  // waits in the backlog
  second.send(kGet);
  held.let_go = true;
  EXPECT_NE(first.receive().find("200"), std::string::npos);
  EXPECT_NE(second.receive().find("200"), std::string::npos);
}

TEST(HttpLimits, ConnectionsAreTakenNoFasterThanTheGapAllows) {
  constexpr int kClients = 12;
  const SteadyClock clock;
  Serving server(echo, {.gap = Millis(10)});
  std::vector<std::unique_ptr<Raw>> clients;
  const Time begin = clock.now();
  for (int n = 0; n < kClients; ++n) {
    clients.push_back(std::make_unique<Raw>(server.endpoint));
    clients.back()->send(kGet);
  }
  for (const auto& client : clients) EXPECT_NE(client->receive().find("200"), std::string::npos);
  EXPECT_GE(clock.now() - begin, Millis(10) * (kClients - 8)) << "eight are taken at once";
}

TEST(HttpLimits, ABodyThatDoesNotComeGivesItsMemoryToAnother) {
  Serving server(echo, {.body_bytes = 100, .memory_bytes = 150});
  Raw slow(server.endpoint), quick(server.endpoint);
  slow.send(post(100) + "b");
  quick.send(post(100));
  EXPECT_EQ(slow.receive(), "");
  quick.send(std::string(100, 'b'));
  EXPECT_NE(quick.receive().find("\"size\":100"), std::string::npos);
}

TEST(HttpLimits, ABodyIsRefusedWhileRequestsInHandHaveTheMemory) {
  Held held;
  Serving server(std::ref(held), {.body_bytes = 100, .memory_bytes = 150});
  Raw first(server.endpoint);
  first.send(post(100, "/held") + std::string(100, 'b'));
  EXPECT_TRUE(eventually("the first request", [&] { return held.asked == 1; }));
  Raw second(server.endpoint);
  second.send(post(100) + std::string(100, 'b'));
  EXPECT_NE(second.receive().find("503"), std::string::npos);
  held.let_go = true;
  EXPECT_NE(first.receive().find("200"), std::string::npos);
  Raw third(server.endpoint);
  third.send(post(100) + std::string(100, 'b'));
  EXPECT_NE(third.receive().find("200"), std::string::npos);
}

TEST(HttpLimits, ConnectionsTakeTurns) {
  std::vector<std::string> order;  // of the server's thread, until it is idle
  const auto note = [&order](HttpRequest request) -> asio::awaitable<HttpResponse> {
    order.emplace_back(request.target());
    co_return text_response("");
  };
  Serving server(note);
  Raw many(server.endpoint), one(server.endpoint);
  for (Raw* client : {&many, &one}) {  // both are accepted
    client->send(kGet);
    EXPECT_NE(client->receive().find("200"), std::string::npos);
  }
  std::string requests;
  for (int i = 0; i < 1000; ++i) requests += kGet;
  server.while_it_stands([&] {
    many.send(requests);
    one.send("GET /one HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  });
  EXPECT_NE(one.receive_all().find("200"), std::string::npos);
  server.drain_after([] {});
  EXPECT_LT(std::ranges::find(order, "/one") - order.begin(), 20);
}

TEST(HttpLimits, TheNextRequestWaitsUntilTheLastAnswerIsTaken) {
  std::atomic<int> asked = 0;
  const auto large = [&asked](HttpRequest) -> asio::awaitable<HttpResponse> {
    ++asked;
    co_return text_response(std::string(1 << 20, 'a'));
  };
  Serving server(large, {.answer = Millis(20)});
  Raw client(server.endpoint);
  std::string requests;
  for (int i = 0; i < 100; ++i) requests += kGet;
  client.send(requests);
  EXPECT_TRUE(eventually("the first request", [&] { return asked > 0; }));
  server.drain_after([] {});  // the drain waits for the answer's limit
  EXPECT_EQ(asked, 1);
  EXPECT_LT(client.receive_all().size(), size_t{1} << 20);
}

TEST(HttpLimits, UntakenAnswersGoForABody) {
  const auto large = [](HttpRequest request) -> asio::awaitable<HttpResponse> {
    co_return text_response(std::string(request.method() == http::verb::get ? 3 << 20 : 0, 'a'));
  };
  Serving server(large, {.memory_bytes = 4 << 20});
  Raw reads_nothing(server.endpoint), other(server.endpoint);
  reads_nothing.send(kGet);
  EXPECT_FALSE(reads_nothing.receive().empty());  // the answer has begun
  other.send(post(2 << 20));
  EXPECT_LT(reads_nothing.receive_all().size(), size_t{3} << 20);
  for (int i = 0; i < 32; ++i) other.send(std::string(64 << 10, 'b'));
  EXPECT_NE(other.receive().find("200"), std::string::npos);
}

}  // namespace
}  // namespace sluice::wire
