// TLS between our own processes: which callers are let in, and rotation.
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <fstream>
#include <thread>

#include "base/fd.h"
#include "tests/support/folder.h"
#include "wire/http/certificates.h"
#include "wire/http/http.h"
#include "wire/http/tls_front.h"

namespace sluice::wire {
namespace {

using std::chrono::hours;

constexpr const char* kPeer = "sluice-peer";
constexpr const char* kController = "sluice-controller";

// An API on a unix socket, and a front before it.
class TlsFrontTest : public testing::Test {
 protected:
  TlsFrontTest()
      : server_(io_, listen_on({.path = socket()}).value(),
                [](HttpRequest request) -> asio::awaitable<HttpResponse> {
                  co_return text_response("got " + request.body());
                }),
        thread_([this] { io_.run(); }) {}
  ~TlsFrontTest() override {
    io_.stop();
    thread_.join();
  }

  std::string socket() const { return folder_.path + "/api.sock"; }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path + "/" + name) << text;
  }
  // Issues the front's certificate anew.
  void give_certificate(const std::string& name = kPeer) {
    const TlsIdentity own = issue(ca_, {name, {name}, hours(1)}).value();
    write("ca.crt", ca_.certificate);
    write("tls.key", own.key);
    write("tls.crt", own.certificate);
  }
  void open_front(const std::string& client) {
    Fd listening = listen_on({.host = "127.0.0.1"}).value();
    at_ = bound_to(listening).value();
    front_ = std::make_unique<TlsFront>(std::move(listening),
                                        TlsFrontSettings{folder_.path, client, socket()});
  }
  TlsIdentity client_of(const TlsIdentity& ca, const std::string& name) {
    return issue(ca, {name, {}, hours(1)}).value();
  }
  Result<HttpResponse> call(const TlsIdentity& own, const std::string& server = kPeer,
                            const std::string& body = "hello") {
    const TlsContext context = client_context({.ca = ca_.certificate, .own = own}).value();
    HttpClient client(at_, Seconds(5), context, server);
    return client.call(http::verb::post, "/", body);
  }

  TemporaryFolder folder_;
  TlsIdentity ca_ = make_authority("test", hours(1)).value();
  asio::io_context io_{1};
  HttpServer server_;
  std::thread thread_;
  std::unique_ptr<TlsFront> front_;
  Endpoint at_;
};

TEST_F(TlsFrontTest, RelaysACallOfTheOneThatItAsksFor) {
  give_certificate();
  open_front(kController);
  const auto answer = call(client_of(ca_, kController), kPeer, std::string(1 << 20, 'x'));
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->body(), "got " + std::string(1 << 20, 'x'));
}

TEST_F(TlsFrontTest, TurnsAwayOthers) {
  give_certificate();
  open_front(kController);
  const TlsIdentity foreign = make_authority("another", hours(1)).value();
  EXPECT_FALSE(call({}).ok()) << "no certificate";
  EXPECT_FALSE(call(client_of(ca_, "sluice-agent")).ok()) << "another of ours";
  EXPECT_FALSE(call(client_of(foreign, kController)).ok()) << "of another authority";
  EXPECT_TRUE(call(client_of(ca_, kController)).ok());
}

TEST_F(TlsFrontTest, AClientTurnsAwayAnotherServer) {
  give_certificate("someone-else");
  open_front("");
  EXPECT_FALSE(call({}).ok());
  EXPECT_TRUE(call({}, "someone-else").ok());
}

TEST_F(TlsFrontTest, ServesWithTheNewestCertificate) {
  open_front("");
  EXPECT_FALSE(call({}).ok()) << "there is none yet";
  give_certificate("first");
  EXPECT_TRUE(call({}, "first").ok());
  give_certificate("second");
  EXPECT_TRUE(call({}, "second").ok());
  write("tls.key", "none");
  write("tls.crt", "none");
  EXPECT_TRUE(call({}, "second").ok()) << "the former stays in use";
}

TEST(Certificates, SayWhenTheyEnd) {
  const TlsIdentity ca = make_authority("test", hours(48)).value();
  const auto end = ends_at(ca.certificate);
  ASSERT_TRUE(end.ok());
  EXPECT_NEAR(static_cast<double>(*end - unix_now()), 48 * 3600e3, 60e3);
  EXPECT_FALSE(ends_at("no certificate").ok());
  EXPECT_FALSE(issue({"no", "authority"}, {"x", {}, hours(1)}).ok());
}

}  // namespace
}  // namespace sluice::wire
