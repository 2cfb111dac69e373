// The gateway's contract with users and operators, line by line: identities and tokens.
#include <gmock/gmock.h>

#include "tests/support/gateway_contract.h"

namespace sluice::gateway {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

TEST_F(Contract, EveryRequestHasAnIdentityAndATrace) {
  instance("i");
  table({"i"});
  const std::string made = ask(connect(), "one");
  const auto value = [](const std::string& answer, const std::string& name) {
    const size_t at = answer.find("\r\n" + name + ": ");
    if (at == answer.npos) return std::string();
    const size_t from = at + name.size() + 4;
    return answer.substr(from, answer.find('\r', from) - from);
  };
  EXPECT_THAT(value(made, "Seen-Trace"), MatchesRegex("00-[0-9a-f]{32}-[0-9a-f]{16}-01"));
  EXPECT_THAT(value(made, "X-Request-Id"), MatchesRegex("[0-9a-f]{32}"));
  EXPECT_EQ(value(made, "Seen-Id"), value(made, "X-Request-Id"));
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
  const std::string passed =
      ask(connect(), "two", "X-Request-Id: mine\r\ntraceparent: " + trace + "\r\n");
  EXPECT_EQ(value(passed, "Seen-Trace"), trace);
  EXPECT_EQ(value(passed, "Seen-Id"), "mine");
  EXPECT_EQ(value(passed, "X-Request-Id"), "mine");
  const int c = connect();
  send(c, "GET /nothing HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\n\r\n");
  EXPECT_EQ(value(receive(c, "}"), "X-Request-Id"), "mine") << "our own answers too";
}

TEST_F(Contract, InstancesHearHowMuchTimeIsLeft) {
  instance("i");
  RoutingTable t = table_of({"i"});
  t.functions["f"].slo = Seconds(20);
  put(t);
  const auto time_left = [](const std::string& answer) {
    const size_t at = answer.find("Seen-Time-Left: ");
    return Micros(at != answer.npos ? std::atoll(answer.c_str() + at + 16) : -1);
  };
  const int c = connect();
  const Micros said = time_left(ask(c, "x", "Sluice-Time-Left: 99000000\r\n"));
  EXPECT_LE(said, Seconds(20)) << "clients have no say in it";
  EXPECT_GT(said, Seconds(0));
  t.functions["f"].slo = Nanos(1);
  put(t);
  EXPECT_EQ(time_left(ask(c, "y")), Micros(0)) << "late already";
  send(c, "GET /v2/models/f HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(receive(c, "Seen-Id"), HasSubstr("Seen-Time-Left: \r\n")) << "a question is no load";
}

TEST_F(Contract, AFunctionsTokenIsAskedForAndStaysHere) {
  instance("i");
  RoutingTable t = table_of({"i"});
  t.functions["f"].token = "secret";
  put(t);
  const int c = connect();
  send(c, post("x"));
  const std::string denied = receive(c, "}");
  EXPECT_THAT(denied, HasSubstr("HTTP/1.1 401"));
  EXPECT_THAT(denied, HasSubstr("WWW-Authenticate: Bearer\r\n"));
  const std::string served = ask(c, "let in", "Authorization: Bearer secret\r\n");
  EXPECT_THAT(served, HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(served, Not(HasSubstr("secret")));
  // A function without a token may have a scheme of its own, if the platform has none either.
  table({"i"});
  EXPECT_THAT(ask(c, "own", "Authorization: Basic dTpw\r\n"), HasSubstr("Seen-Token: Basic dTpw"));
}

class ContractWithAPlatformToken : public Contract {
 protected:
  ContractWithAPlatformToken() : Contract("platform") {}
  std::string get(std::string_view path, std::string_view extra = "") {
    const int c = connect();
    send(c, "GET " + std::string(path) + " HTTP/1.0\r\nHost: x\r\n" + std::string(extra) + "\r\n");
    return receive(c, "");
  }
};

TEST_F(ContractWithAPlatformToken, ItHoldsForFunctionsThatHaveNoneOfTheirOwn) {
  instance("i");
  RoutingTable t = table_of({"i"});
  put(t);
  const int c = connect();
  send(c, post("x"));
  EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 401"));
  const std::string served = ask(c, "let in", "Authorization: Bearer platform\r\n");
  EXPECT_THAT(served, HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(served, Not(HasSubstr("Bearer"))) << "the instance has not seen it";
  t.functions["f"].token = "own";
  put(t);
  send(c, post("x", "Authorization: Bearer platform\r\n"));
  EXPECT_THAT(receive(c, "}"), HasSubstr("HTTP/1.1 401"));
  EXPECT_THAT(ask(c, "in again", "Authorization: Bearer own\r\n"), HasSubstr("HTTP/1.1 200"));
}

TEST_F(ContractWithAPlatformToken, ItHoldsForListingsButNotForHealth) {
  for (const char* open : {"/", "/v2/health/live", "/v2/health/ready"})
    EXPECT_THAT(get(open), HasSubstr(" 200 ")) << open;
  for (const char* closed : {"/v2", "/v2/models", "/v2/models/stats", "/metrics"}) {
    EXPECT_THAT(get(closed), HasSubstr(" 401 ")) << closed;
    EXPECT_THAT(get(closed, "Authorization: Bearer platform\r\n"), HasSubstr(" 200 ")) << closed;
  }
}

}  // namespace
}  // namespace sluice::gateway
