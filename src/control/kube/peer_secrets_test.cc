#include "control/kube/peer_secrets.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/folder.h"
#include "tests/support/kube_client.h"

namespace sluice::control {
namespace {

using nlohmann::json;

class PeerSecretsTest : public KubeClientTest {};

TEST_F(PeerSecretsTest, CertificatesAreMadeOnceAndRenewed) {
  const auto get = [&] { return wait(authority(*client_, "s")).value(); };
  const wire::TlsIdentity ca = get();
  EXPECT_EQ(get(), ca);
  const auto server = [&](UnixMillis wall) {
    return wait(server_secret(*client_, "s", kPeerSecret, ca, {kPeerName}, wall)).value();
  };
  const wire::TlsIdentity first = server(unix_now());
  EXPECT_EQ(server(unix_now()), first);
  EXPECT_NE(server(unix_now() + UnixMillis{70} * 24 * 3'600'000), first)
      << "most of its time is over";
}

json secret(const std::string& name, json data) {
  return {{"metadata", {{"namespace", "s"}, {"name", name}}}, {"data", std::move(data)}};
}

TEST_F(PeerSecretsTest, ATokenIsMadeOnceAndIsNeverEmpty) {
  const auto get = [&] { return wait(api_token(*client_, "s")); };
  const std::string made = get().value();
  EXPECT_GE(made.size(), 16u);
  EXPECT_EQ(get().value(), made);
  for (const json& data : {json::object(), json{{"token", ""}}, json{{"token", "!"}}}) {
    server_.remove("/api/v1/secrets", "s", kTokenSecret);
    server_.put("/api/v1/secrets", secret(kTokenSecret, data));
    const auto none = get();
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().kind, ErrorKind::kInvalid) << data;
  }
}

TEST_F(PeerSecretsTest, AnAuthorityThatIsNoneIsAnError) {
  server_.put("/api/v1/secrets", secret("sluice-ca", {{"tls.crt", ""}}));
  const auto read = wait(authority(*client_, "s"));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind, ErrorKind::kInvalid);
}

// Of the API and the webhook. An expired one is one whose time is over.
TEST_F(PeerSecretsTest, TheControllersOwnCertificateIsRenewedInTime) {
  const TemporaryFolder folder;
  const auto read = [&](const char* file) {
    std::ostringstream text;
    text << std::ifstream(folder.path + file).rdbuf();
    return text.str();
  };
  const wire::TlsIdentity ca = *wire::make_authority("one", std::chrono::hours(24 * 365)),
                          other = *wire::make_authority("other", std::chrono::hours(24 * 365));
  const auto keep = [&](const wire::TlsIdentity& by, UnixMillis in_days) {
    return *keep_certificate(folder.path, by, {"sluice-controller", "sluice-controller.s.svc"},
                             unix_now() + in_days * 24 * 3'600'000);
  };
  EXPECT_TRUE(keep(ca, 0));
  const std::string first = read("/tls.crt");
  EXPECT_FALSE(keep(ca, 59));
  EXPECT_EQ(read("/tls.crt"), first);
  std::filesystem::remove(std::string(folder.path) + "/ca.crt");
  EXPECT_TRUE(keep(ca, 0)) << "one that was killed meanwhile has left that out";
  EXPECT_TRUE(keep(ca, 61)) << "two thirds of its time are over";
  EXPECT_NE(read("/tls.crt"), first);
  EXPECT_TRUE(keep(ca, 100)) << "it has expired";
  EXPECT_TRUE(keep(other, 0)) << "the authority has changed";
  EXPECT_TRUE(wire::server_context({read("/tls.crt"), read("/tls.key")}, "").ok());
}

}  // namespace
}  // namespace sluice::control
