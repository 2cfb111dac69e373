#include "wire/http/http.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/support/http.h"

namespace sluice::wire {
namespace {

TEST(Endpoint, ReadsWhatItPrints) {
  for (const char* text : {"unix:/run/a.sock", "127.0.0.1:8000", "0.0.0.0:1"})
    EXPECT_EQ(to_string(*parse_endpoint(text)), text);
  EXPECT_EQ(to_string(*parse_endpoint("8000")), "127.0.0.1:8000");
  EXPECT_EQ(to_string(*parse_endpoint("/run/a.sock")), "unix:/run/a.sock");
  for (const char* text : {"", "host:", "host:99999", ":1", "host:1x"})
    EXPECT_FALSE(parse_endpoint(text).ok()) << text;
}

TEST(Endpoint, PortZeroIsAnyThatIsFree) {
  const Fd first = std::move(*listen_on({.host = "127.0.0.1"}));
  const Endpoint at = *bound_to(first);
  EXPECT_EQ(at.host, "127.0.0.1");
  EXPECT_GT(at.port, 0);
  EXPECT_EQ(listen_on(at).error().kind, ErrorKind::kConflict);
}

TEST(Target, IsSplitAndDecoded) {
  const Target t = *parse_target("/v1//a%20b/?x=1&y=a+b%26&flag");
  EXPECT_EQ(t.path, (std::vector<std::string>{"v1", "a b"}));
  EXPECT_EQ(t.get("x"), "1");
  EXPECT_EQ(t.get("y"), "a b&");
  EXPECT_EQ(t.get("flag", "?"), "");
  EXPECT_EQ(t.get("none", "?"), "?");
  for (const char* text : {"/%", "/%1", "/%zz", "/a?x=%g0"})
    EXPECT_FALSE(parse_target(text).ok()) << text;
}

TEST(Json, RefusesWhatIsTooDeepOrBroken) {
  EXPECT_TRUE(parse_json(R"({"a":[1,2]})").ok());
  EXPECT_EQ(parse_json(std::string(100, '[') + std::string(100, ']')).error().message,
            "JSON: nested deeper than 64 levels");
  EXPECT_FALSE(parse_json("{").ok());
}

TEST(Http, AnswersOverAKeptConnection) {
  Serving server(echo);
  HttpClient client(server.endpoint);
  for (int i = 0; i < 3; ++i) {
    const auto r = client.json(http::verb::post, "/x?i=" + std::to_string(i), {{"a", 1}});
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_EQ((*r)["method"], "POST");
    EXPECT_EQ((*r)["size"], 7);
  }
}

TEST(Http, CarriesErrorsAsErrors) {
  Serving server([](HttpRequest) -> asio::awaitable<HttpResponse> {
    co_return error_response(Error{ErrorKind::kConflict, "id: taken"});
  });
  HttpClient client(server.endpoint);
  const auto r = client.json(http::verb::get, "/");
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::kConflict);
  EXPECT_EQ(r.error().message, "id: taken");
}

TEST(Http, ADrainedServerAnswersWhatWasOnItsWay) {
  constexpr std::string_view kRequest = "GET /x HTTP/1.1\r\nHost: x\r\n\r\n";
  Serving serving(echo);
  Raw kept(serving.endpoint), unused(serving.endpoint);
  kept.send(kRequest);
  EXPECT_NE(kept.receive().find("200 OK"), std::string::npos);
  std::optional<Raw> fresh;
  serving.drain_after([&] {
    kept.send(kRequest);
    fresh.emplace(serving.endpoint);  // not accepted yet
    fresh->send(kRequest);
  });
  for (Raw* connection : {&kept, &*fresh}) {
    const std::string answer = connection->receive_all();
    EXPECT_NE(answer.find("200 OK"), std::string::npos) << answer;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos) << answer;
  }
  EXPECT_EQ(unused.receive_all(), "");
  EXPECT_EQ(HttpClient(serving.endpoint).json(http::verb::get, "/").error().kind,
            ErrorKind::kUnavailable);
}

TEST(Http, NobodyListeningIsUnavailable) {
  HttpClient client(Endpoint{.path = "/nonexistent/socket"});
  EXPECT_EQ(client.json(http::verb::get, "/").error().kind, ErrorKind::kUnavailable);
}

TEST(Http, BadInputGetsAStatusAndACloseNotACrash) {
  Serving server(echo, {.header_bytes = 1024, .body_bytes = 100});
  EXPECT_NE(raw(server.endpoint, "NONSENSE\r\n\r\n").find("400"), std::string::npos);
  EXPECT_NE(raw(server.endpoint, "POST / HTTP/1.1\r\nContent-Length: 101\r\n\r\n").find("413"),
            std::string::npos);
  EXPECT_NE(raw(server.endpoint, "GET / HTTP/1.1\r\nA: " + std::string(2000, 'x') + "\r\n\r\n")
                .find("431"),
            std::string::npos);
  const std::string pipelined =
      raw(server.endpoint, "GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_LT(pipelined.find("/1"), pipelined.find("/2"));
  EXPECT_NE(pipelined.find("/2"), std::string::npos);
  HttpClient client(server.endpoint);
  EXPECT_TRUE(client.json(http::verb::get, "/still-here").ok());
}

// Beast's parser asserts where a last chunk's line comes in pieces.
TEST(Http, ABodyMayComeByteByByte) {
  Serving server(echo);
  Raw connection(server.endpoint);
  const std::string_view request =
      "POST /x HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  for (size_t i = 0; i < request.size(); ++i) connection.send(request.substr(i, 1));
  EXPECT_NE(connection.receive_all().find("POST"), std::string::npos);
}

TEST(Listen, ReplacesADeadOwnersSocketButNotALivingOnes) {
  Serving server(echo);
  EXPECT_EQ(listen_on(server.endpoint).error().kind, ErrorKind::kConflict);
  const Endpoint dead{.path = server.endpoint.path + "-dead"};
  { const Fd first = std::move(*listen_on(dead)); }
  EXPECT_TRUE(listen_on(dead).ok());
  EXPECT_FALSE(listen_on(Endpoint{.path = std::string(200, 'x')}).ok());
}

}  // namespace
}  // namespace sluice::wire
