#include "control/kube/desired_objects.h"

#include <gtest/gtest.h>

#include "control/kube/objects.h"
#include "tests/support/eventually.h"
#include "tests/support/kube_client.h"

namespace sluice::control {
namespace {

using nlohmann::json;

FunctionSpec spec_named(const std::string& name) {
  FunctionSpec spec{.name = {"default", name}};
  spec.model().path = "/models/m.pt";
  return spec;
}

json function_object(const std::string& name) {
  return {{"metadata", {{"namespace", "default"}, {"name", name}}},
          {"spec", {{"model", {{"storageUri", "file:///models/m.pt"}}}}}};
}

class DesiredObjectsTest : public KubeClientTest {
 protected:
  DesiredObjectsTest() {
    server_.put(kFunctionsPath, function_object("f"));
    spawn(functions_.run());
    spawn(writer_.run());
    EXPECT_TRUE(eventually("f is listed", [&] { return functions_.all().size() == 1; }));
  }
  void settle() {
    EXPECT_TRUE(eventually("all is written", [&] { return writer_.waiting() == 0; }));
    const std::string version =
        (*server_.get(kFunctionsPath, "default", "f"))["metadata"]["resourceVersion"];
    EXPECT_TRUE(eventually("the copy has it", [&] {
      return functions_.find({"default", "f"})->status ==
             (*server_.get(kFunctionsPath, "default", "f")).value("status", json::object());
    }));
  }
  // Another loop's view.
  StoredFunction read_again() {
    DesiredObjects other(*client_, functions_, writer_, profiles_);
    auto all = other.functions();
    EXPECT_TRUE(all.ok() && all->size() == 1);
    return all.ok() && !all->empty() ? (*all)[0] : StoredFunction{};
  }

  kube::Informer<FunctionObject> functions_{*client_, kFunctionsPath};
  ObjectWriter writer_{*client_, [] { return true; }};
  ProfileObjects profiles_{*client_, writer_, "sluice-system"};
  DesiredObjects desired_{*client_, functions_, writer_, profiles_};
};

TEST_F(DesiredObjectsTest, TheNextLoopReadsWhatThisOneWrote) {
  ASSERT_TRUE(desired_.add_revision({{"default", "f"}, 1, spec_named("f"), 1000}, 1).ok());
  ASSERT_TRUE(desired_.add_revision({{"default", "f"}, 2, spec_named("f"), 2000}, 1).ok());
  settle();
  StoredFunction f = read_again();
  EXPECT_EQ(f.newest, 2);
  EXPECT_EQ(f.serving, 1);
  EXPECT_EQ(f.revisions.size(), 2u);
  EXPECT_EQ(f.revisions[0].spec, spec_named("f"));
  EXPECT_EQ(f.revisions[1].created, 2000);

  ASSERT_TRUE(desired_.set_revisions({"default", "f"}, 2, 2, {1, 2}).ok());
  ASSERT_TRUE(desired_.forget_revisions({"default", "f"}, 2, 2).ok());
  settle();
  f = read_again();
  EXPECT_EQ(f.serving, 2);
  EXPECT_EQ(f.served, (ServingHistory{1, 2}));
  EXPECT_EQ(f.revisions.size(), 1u);
}

TEST_F(DesiredObjectsTest, ARevisionThatIsNotWrittenIsAnError) {
  server_.refuse(
      [](const std::string& method, const std::string&) { return method == "POST" ? 403 : 0; });
  const auto added = desired_.add_revision({{"default", "f"}, 1, spec_named("f"), 0}, 1);
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().kind, ErrorKind::kDenied);
}

// A leader wrote the object, and died before it could say so.
TEST_F(DesiredObjectsTest, ARevisionOfALeaderThatDiedIsTakenOver) {
  FunctionSpec before = spec_named("f"), after = spec_named("f");
  before.inference().min_replicas = 7;
  DesiredObjects dead(*client_, functions_, writer_, profiles_);
  ASSERT_TRUE(dead.add_revision({{"default", "f"}, 1, before, 0}, 1).ok());
  ASSERT_TRUE(desired_.add_revision({{"default", "f"}, 1, after, 0}, 1).ok());
  settle();
  EXPECT_EQ(read_again().revisions[0].spec, after);
}

TEST_F(DesiredObjectsTest, RevisionsGoWithTheirFunction) {
  ASSERT_TRUE(desired_.add_revision({{"default", "f"}, 1, spec_named("f"), 0}, 1).ok());
  server_.remove(kFunctionsPath, "default", "f");
  EXPECT_TRUE(server_.all(kRevisionsPath).empty());
}

TEST_F(DesiredObjectsTest, TheNextLoopReadsWhatWasMeasured) {
  Profile measured{.model = "/models/m.pt",
                   .content = "17ac",
                   .device = {"cpu/600m"},
                   .function = {"default", "f"},
                   .points = {{.at = {1, kWhole, kWhole}, .median = Millis(3), .p95 = Millis(4)}}};
  ASSERT_TRUE(desired_.save_profile(measured).ok());
  Profile elsewhere = measured;
  elsewhere.device = {"cpu/2000m"};
  ASSERT_TRUE(desired_.save_profile(elsewhere).ok());
  settle();
  measured.points[0].median = Millis(2);
  ASSERT_TRUE(desired_.save_profile(measured).ok());
  settle();
  EXPECT_EQ(server_.all(kProfilesPath).size(), 2u);
  ProfileObjects others(*client_, writer_, "sluice-system");
  const auto read = others.read();
  ASSERT_TRUE(read.ok()) << read.error().message;
  const Profile* found = read->find({.content = "17ac"}, {"cpu/600m"});
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(*found, measured);
}

// A hand-edited one costs its own model's measurement alone.
TEST_F(DesiredObjectsTest, AProfileThatCannotBeReadHidesNoOther) {
  ASSERT_TRUE(desired_.save_profile({.model = "/models/m.pt", .device = {"cpu/600m"}}).ok());
  settle();
  server_.put(kProfilesPath, {{"metadata", {{"namespace", "sluice-system"}, {"name", "bad"}}},
                              {"spec", {{"profile", {{"model", 7}}}}}});
  const auto read = profiles_.read();
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->all().size(), 1u);
}

}  // namespace
}  // namespace sluice::control
