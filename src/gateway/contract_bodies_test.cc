// The gateway's contract with users and operators, line by line: how large a body may be.
#include <gmock/gmock.h>

#include "tests/support/gateway_contract.h"

namespace sluice::gateway {
namespace {

using testing::HasSubstr;

class ContractOfBodies : public Contract {
 protected:
  ContractOfBodies() { limits.body_bytes = 2 << 20; }
  static std::string head(const std::string& framing) {
    return "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\n" + framing + "\r\n\r\n";
  }
  // Sends what fits into the socket while the loop runs. Returns the answer, to its end.
  std::string push(int c, std::string_view bytes, std::string_view until_text) {
    std::string all;
    until([&] {
      const ssize_t n = ::send(c, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
      return bytes.empty();
    });
    EXPECT_EQ(bytes.size(), 0u) << "the gateway takes what it has refused, until it is read";
    return receive(c, until_text);
  }
};

TEST_F(ContractOfBodies, ItIsSaidBeforeTheBodyIsSent) {
  table({});
  for (const char* expect : {"Expect: 100-continue\r\n", ""}) {
    const int c = connect();
    send(c, head(expect + std::string("Content-Length: 2097153")));
    const std::string answer = receive(c, "}");
    EXPECT_THAT(answer, testing::StartsWith("HTTP/1.1 413")) << "no 100 Continue before";
    EXPECT_THAT(answer, HasSubstr("larger than the 2097152 bytes allowed"));
  }
  EXPECT_EQ(counters().invalid, 2u);
}

// The gateway answers a repository call itself, and keeps its whole body.
TEST_F(ContractOfBodies, ARepositoryCallHasItsOwnLimit) {
  table({});
  const std::string load = "POST /v2/repository/models/f/load HTTP/1.1\r\nHost: x\r\n";
  const std::string too_large = "larger than the 1048576 bytes allowed here";
  const std::string mebibyte(1 << 20, ' ');
  const int asking = connect();
  send(asking, load + "Expect: 100-continue\r\nContent-Length: 1048577\r\n\r\n");
  EXPECT_THAT(receive(asking, "}"),
              testing::AllOf(testing::StartsWith("HTTP/1.1 413"), HasSubstr(too_large)));
  EXPECT_THAT(
      push(connect(),
           load + "Transfer-Encoding: chunked\r\n\r\n100001\r\n" + mebibyte + " \r\n0\r\n\r\n",
           "}"),
      testing::AllOf(testing::StartsWith("HTTP/1.1 413"), HasSubstr(too_large)));
  EXPECT_THAT(push(connect(), load + "Content-Length: 1048576\r\n\r\n" + mebibyte, "{}"),
              testing::StartsWith("HTTP/1.1 200"));
}

TEST_F(ContractOfBodies, ARepositoryCallIsRefusedForNowWhereNoMemoryIsFree) {
  use({.body_rooms = 0});
  table({});
  const auto load = [&](size_t bytes) {
    return push(connect(),
                "POST /v2/repository/models/f/load HTTP/1.1\r\nHost: x\r\nContent-Length: " +
                    std::to_string(bytes) + "\r\n\r\n" + std::string(bytes, ' '),
                "}");
  };
  EXPECT_THAT(load(16 * 1024), testing::StartsWith("HTTP/1.1 200")) << "it lies behind its head";
  EXPECT_THAT(load(16 * 1024 + 1),
              testing::AllOf(testing::StartsWith("HTTP/1.1 503"), HasSubstr("no memory is free")));
}

TEST_F(ContractOfBodies, AClientThatIsStillWritingCanReadIt) {
  table({});
  const int c = connect();
  const std::string body(16 << 20, 'b');
  EXPECT_THAT(push(c, head("Content-Length: " + std::to_string(body.size())) + body, "}"),
              testing::StartsWith("HTTP/1.1 413"));
}

TEST_F(ContractOfBodies, ABodyWithoutALengthIsCounted) {
  instance("i", [](HttpRequest request) -> wire::asio::awaitable<HttpResponse> {
    co_return wire::text_response(std::to_string(request.body().size()) + " bytes.");
  });
  table({"i"});
  std::string chunks;
  for (int i = 0; i < 31; ++i) chunks += "10000\r\n" + std::string(0x10000, 'z') + "\r\n";
  const int fits = connect(), exceeds = connect();
  EXPECT_THAT(push(fits, head("Transfer-Encoding: chunked") + chunks + "0\r\n\r\n", "bytes."),
              HasSubstr("2031616 bytes."));
  chunks += "10001\r\n" + std::string(0x10001, 'z') + "\r\n";
  EXPECT_THAT(push(exceeds, head("Transfer-Encoding: chunked") + chunks + "0\r\n\r\n", "}"),
              testing::StartsWith("HTTP/1.1 413"));
  limits.body_bytes = 10;
  const int small = connect();
  EXPECT_THAT(
      push(small, head("Transfer-Encoding: chunked") + "b\r\nhello world\r\n0\r\n\r\n", "}"),
      testing::StartsWith("HTTP/1.1 413"));
}

TEST_F(ContractOfBodies, AnInstanceThatInflatesABodyIsToldTheLimit) {
  instance("i", [](HttpRequest request) -> wire::asio::awaitable<HttpResponse> {
    co_return wire::text_response("limit '" + std::string(request["Sluice-Body-Limit"]) + "'.");
  });
  table({"i"});
  const int c = connect();
  send(c, post("x", "Content-Encoding: gzip\r\nSluice-Body-Limit: 9999999\r\n"));
  EXPECT_THAT(receive(c, "'."), HasSubstr("limit '2097152'."));
  send(c, post("x"));
  EXPECT_THAT(receive(c, "'."), HasSubstr("limit ''."));
}

}  // namespace
}  // namespace sluice::gateway
