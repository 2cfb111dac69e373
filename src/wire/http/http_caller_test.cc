// HttpCaller, and what HttpClient has of it: kept connections, and faults of the server.
#include "wire/http/http_caller.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <thread>

#include "tests/support/http.h"

namespace sluice::wire {
namespace {

// A server whose answers a test writes byte by byte, and a caller of it.
class HttpCallerTest : public testing::Test {
 protected:
  HttpCallerTest() : listening_(listen_on({.path = folder_.path + "/s"}).value()) {}

  HttpCaller caller(Nanos timeout = Seconds(20), uint64_t most = 0) {
    return {io_, {.at = {.path = folder_.path + "/s"}, .most = most}, timeout};
  }
  // Calls, while `serve` plays the server.
  Result<HttpResponse> call(HttpCaller& it, const std::function<void()>& serve) {
    std::thread server(serve);
    Result<HttpResponse> answer = call(it);
    server.join();
    return answer;
  }
  Result<HttpResponse> call(HttpCaller& it) {
    io_.restart();
    Result<HttpResponse> answer = Error{ErrorKind::kInternal, "no answer"};
    asio::co_spawn(
        io_,
        [&]() -> asio::awaitable<void> {
          HttpRequest request = json_request(http::verb::get, "/x", nullptr);
          answer = co_await it.send(std::move(request));
        },
        asio::detached);
    io_.run();
    return answer;
  }
  void accept() { served_.reset(::accept(listening_.get(), nullptr, nullptr)); }
  std::string receive() {
    std::string all;
    while (!all.ends_with("\r\n\r\n")) {
      char part[4096];
      const ssize_t n = ::recv(served_.get(), part, sizeof part, 0);
      if (n <= 0) break;
      all.append(part, static_cast<size_t>(n));
    }
    return all;
  }
  void answer(const std::string& body, const std::string& fields = "") {
    const std::string text = "HTTP/1.1 200 OK\r\n" + fields +
                             "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    ::send(served_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  bool another_waits() {
    pollfd p{.fd = listening_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&p, 1, 0) > 0;
  }

  const TemporaryFolder folder_;
  asio::io_context io_{1};
  Fd listening_, served_;
};

TEST_F(HttpCallerTest, KeepsItsConnection) {
  HttpCaller it = caller();
  it.set_token("secret");
  std::string request;
  EXPECT_EQ(call(it, [&] { accept(), request = receive(), answer("1"); })->body(), "1");
  EXPECT_NE(request.find("Host: localhost\r\n"), std::string::npos) << request;
  EXPECT_NE(request.find("Authorization: Bearer secret\r\n"), std::string::npos) << request;
  EXPECT_EQ(call(it, [&] { receive(), answer("2"); })->body(), "2");
  EXPECT_FALSE(another_waits());
}

TEST_F(HttpCallerTest, OpensAnotherWhereTheServerClosedIt) {
  HttpCaller it = caller();
  EXPECT_TRUE(call(it, [&] { accept(), receive(), answer("1"); }).ok());
  served_.reset();
  EXPECT_EQ(call(it, [&] { accept(), receive(), answer("2"); })->body(), "2");
  EXPECT_TRUE(call(it, [&] { receive(), answer("3", "Connection: close\r\n"); }).ok());
  EXPECT_EQ(call(it, [&] { accept(), receive(), answer("4"); })->body(), "4");
}

// The request may have been carried out: it is not sent again.
TEST_F(HttpCallerTest, AServerThatBreaksOffAFreshConnectionIsUnavailable) {
  HttpCaller it = caller();
  const auto answered = call(it, [&] { accept(), receive(), served_.reset(); });
  ASSERT_FALSE(answered.ok());
  EXPECT_EQ(answered.error().kind, ErrorKind::kUnavailable);
  EXPECT_FALSE(another_waits());
}

TEST_F(HttpCallerTest, AServerThatDoesNotAnswerIsLateAndAskedAnew) {
  HttpCaller it = caller(Millis(50));
  const auto late = call(it);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::kTimeout);
  accept();  // the one that was given up
  HttpCaller patient = caller();
  EXPECT_TRUE(call(patient, [&] { accept(), receive(), answer("1"); }).ok());
}

TEST_F(HttpCallerTest, AnAnswerMayBeTooLarge) {
  HttpCaller it = caller(Seconds(20), 1000);
  EXPECT_TRUE(call(it, [&] { accept(), receive(), answer(std::string(1000, 'x')); }).ok());
  const auto large = call(it, [&] { receive(), answer(std::string(1001, 'x')); });
  ASSERT_FALSE(large.ok());
}

TEST_F(HttpCallerTest, AnAbsentServerIsUnavailable) {
  HttpCaller it(io_, {.at = {.path = folder_.path + "/none"}}, Seconds(20));
  EXPECT_EQ(call(it).error().kind, ErrorKind::kUnavailable);
}

TEST(JsonOf, AnErrorIsItsMessage) {
  HttpResponse r{http::status::not_found, 11};
  r.body() = R"({"error": "no such function"})";
  EXPECT_EQ(json_of(r).error().message, "no such function");
  EXPECT_EQ(json_of(r).error().kind, ErrorKind::kNotFound);
  r.body() = "plain";
  EXPECT_EQ(json_of(r).error().message, "plain");
  r.result(http::status::ok);
  EXPECT_FALSE(json_of(r).ok());
  r.body() = "";
  EXPECT_TRUE(json_of(r)->is_null());
}

}  // namespace
}  // namespace sluice::wire
