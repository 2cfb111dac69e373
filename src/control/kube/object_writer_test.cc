#include "control/kube/object_writer.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/eventually.h"
#include "tests/support/kube_client.h"

namespace sluice::control {
namespace {

using nlohmann::json;

class WriterTest : public KubeClientTest {
 protected:
  static kube::Call write(const std::string& name, int value) {
    return {kube::verb::patch,
            "/api/v1/namespaces/default/configmaps/" + name + "?force=true",
            {{"metadata", {{"namespace", "default"}, {"name", name}}}, {"data", {{"v", value}}}},
            kube::kApply};
  }
  json value(const std::string& name) const {
    const auto object = server_.get("/api/v1/configmaps", "default", name);
    return object ? (*object)["data"]["v"] : json();
  }

  bool may_write_ = true;
  std::vector<std::string> refused_;
  ObjectWriter writer_{*client_, [this] { return may_write_; },
                       [this](const std::string& key, const Error& e) {
                         refused_.push_back(key + ": " + e.message);
                       }};
  ObjectWriter ordered_{*client_, [] { return true; }, {}, ObjectWriter::Again::kFirst};
};

TEST_F(WriterTest, WritesTheLatestOfAKey) {
  for (int i = 1; i <= 100; ++i) writer_.put("a", write("a", i));
  spawn(writer_.run());
  EXPECT_TRUE(eventually("all is written", [&] { return writer_.waiting() == 0; }));
  EXPECT_EQ(value("a"), 100);
}

TEST_F(WriterTest, RepeatsWhatIsNotAnsweredAndForgetsWhatIsRefused) {
  std::atomic<int> code = 503;
  server_.refuse([&](const std::string&, const std::string&) { return code.load(); });
  spawn(writer_.run());
  writer_.put("a", write("a", 1));
  EXPECT_TRUE(eventually("two tries", [&] { return server_.calls().size() >= 2; }));
  EXPECT_EQ(writer_.waiting(), 1u);
  writer_.put("a", write("a", 2));
  code = 0;
  EXPECT_TRUE(eventually("it is written", [&] { return writer_.waiting() == 0; }));
  EXPECT_EQ(value("a"), 2);
  code = 422;
  writer_.put("b", write("b", 1));
  EXPECT_TRUE(eventually("it is refused", [&] { return writer_.waiting() == 0; }));
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_[0], "b: refused by the test");
}

// An admission webhook that does not answer makes each write in its namespace a 500.
TEST_F(WriterTest, AWriteThatNeverSucceedsHoldsUpNoOther) {
  server_.refuse([](auto&, const std::string& path) { return path.ends_with("/b") ? 0 : 500; });
  for (int i = 0; i < 30; ++i)
    writer_.put("a" + std::to_string(i), write("a" + std::to_string(i), 1));
  spawn(writer_.run());
  EXPECT_TRUE(eventually("each was tried", [&] { return server_.calls().size() >= 30; }));
  writer_.put("b", write("b", 2));
  EXPECT_TRUE(eventually("b is written", [&] { return value("b") == 2; }));
  EXPECT_LT(server_.calls().size(), 300u) << "b waits for at most a few tries of others";
  server_.refuse({});
  EXPECT_TRUE(eventually("all are written", [&] { return writer_.waiting() == 0; }));
  EXPECT_EQ(value("a29"), 1);
}

// As that of routes: the last one says that all before it are there.
TEST_F(WriterTest, OneThatKeepsTheOrderWaitsForPermission) {
  server_.refuse([](auto&, const std::string& path) { return path.ends_with("/a") ? 403 : 0; });
  ordered_.put("a", write("a", 1));
  ordered_.put("b", write("b", 2));
  spawn(ordered_.run());
  EXPECT_TRUE(eventually("three tries", [&] { return server_.calls().size() >= 3; }));
  EXPECT_TRUE(value("b").is_null());
  server_.refuse({});
  EXPECT_TRUE(eventually("b is written", [&] { return value("b") == 2; }));
  EXPECT_EQ(value("a"), 1);
}

}  // namespace
}  // namespace sluice::control
