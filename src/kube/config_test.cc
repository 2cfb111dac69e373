// Kubeconfigs, as kubectl writes them.
#include "kube/config.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/folder.h"

namespace sluice::kube {
namespace {

class KubeconfigTest : public testing::Test {
 protected:
  Result<Config> read(const std::string& text) {
    std::ofstream(folder_.path + "/config") << text;
    return config_from_file(folder_.path + "/config");
  }
  static std::string file(const std::string& cluster, const std::string& user) {
    return "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
           "contexts: [{name: other, context: {cluster: x, user: y}},\n"
           "           {name: here, context: {cluster: c, user: u, namespace: mine}}]\n"
           "clusters: [{name: c, cluster: {" +
           cluster +
           "}}]\n"
           "users: [{name: u, user: {" +
           user + "}}]\n";
  }

  TemporaryFolder folder_;
};

TEST_F(KubeconfigTest, HasCertificatesInFilesAndInText) {
  std::ofstream(folder_.path + "/ca.crt") << "the CA";
  const auto c = read(file("server: 'https://10.0.0.1:6443', certificate-authority: ca.crt",
                           "client-certificate-data: c2hvd24=, client-key-data: a2VwdA=="));
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ(wire::to_string(c->server), "10.0.0.1:6443");
  EXPECT_TRUE(c->tls);
  EXPECT_EQ(c->shows.ca, "the CA");
  EXPECT_EQ(c->shows.own.certificate, "shown");
  EXPECT_EQ(c->shows.own.key, "kept");
  EXPECT_EQ(c->space, "mine");
}

TEST_F(KubeconfigTest, HasATokenAndADefaultPort) {
  const auto c = read(file("server: 'https://kube.example'", "token: abc"));
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ(c->server.port, 443);
  EXPECT_EQ(c->token, "abc");
}

TEST_F(KubeconfigTest, SaysWhatIsWrong) {
  const auto says = [&](const std::string& text, const std::string& what) {
    const auto c = read(text);
    ASSERT_FALSE(c.ok());
    EXPECT_NE(c.error().message.find(what), std::string::npos) << c.error().message;
    EXPECT_NE(c.error().message.find(folder_.path), std::string::npos) << c.error().message;
  };
  says("current-context: none", "current-context");
  says(file("server: 'ftp://x'", "token: a"), "server: 'ftp://x'");
  says(file("server: 'https://x/prefix'", "token: a"), "has a path");
  says(file("server: 'https://x', certificate-authority: gone.crt", "token: a"), "gone.crt");
  says("[", "config:");
}

}  // namespace
}  // namespace sluice::kube
