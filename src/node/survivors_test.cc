#include "node/survivors.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/folder.h"
#include "wire/http/http.h"

namespace sluice::node {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(FindSurvivors, KnowsAnInstanceByItsListeningSocketAlone) {
  const TemporaryFolder folder, other;
  const Cgroups none = Cgroups::detect("none", "/nowhere");
  EXPECT_EQ(find_survivors(none, folder.path), Survivors{});
  const Result<Fd> a = wire::listen_on({.path = folder.path + "/a.b.sock"});
  const Result<Fd> theirs = wire::listen_on({.path = other.path + "/b.sock"});
  ASSERT_TRUE(a.ok() && theirs.ok());
  EXPECT_EQ(find_survivors(none, folder.path), (Survivors{{"a.b", {getpid()}}}));
}

struct StateToStartFrom : testing::Test {
  void save(const std::string& boot) {
    NodeState state{.boot_id = boot, .generation = 3};
    state.instances.push_back(
        {.instance = {.id = "a", .parts = {{"cpu0", {}, {}}}}, .process = {7, 8}});
    ASSERT_TRUE(registry.save(state).ok());
  }
  std::string error_with(const Survivors& survivors) const {
    const Result<NodeState> state = state_to_start_from(registry, "now", survivors);
    return state.ok() ? "" : state.error().message;
  }
  TemporaryFolder folder;
  Registry registry{folder.path + "/node.json", "now"};
};

TEST_F(StateToStartFrom, IsWhatIsStoredWhereItKnowsAllThatRuns) {
  EXPECT_EQ(state_to_start_from(registry, "now", {})->generation, 0u);
  save("now");
  EXPECT_EQ(state_to_start_from(registry, "now", {{"a", {7, 9}}})->generation, 3u);
  save("before");
  EXPECT_EQ(state_to_start_from(registry, "now", {})->generation, 3u);
}

TEST_F(StateToStartFrom, IsAnErrorWhereSomethingRunsThatItDoesNotKnow) {
  const auto lists =
      AllOf(HasSubstr("node.json: is missing or not the last one"),
            HasSubstr("a (process 7), b (processes 8, 9). Put the file back, or end"));
  EXPECT_THAT(error_with({{"a", {7}}, {"b", {8, 9}}}), lists);
  save("before");
  EXPECT_THAT(error_with({{"a", {7}}, {"b", {8, 9}}}), lists);
  save("now");
  EXPECT_THAT(error_with({{"a", {7}}, {"b", {8}}}), HasSubstr("which run: b (process 8). Put"));
}

TEST_F(StateToStartFrom, SaysOfAFileThatCannotBeReadWhatRunsAndWhatIsLost) {
  std::ofstream(folder.path + "/node.json") << "{\"ver";
  EXPECT_THAT(error_with({}), AllOf(HasSubstr("node.json: cannot be understood"),
                                    HasSubstr("remove the file. Lost with it are")));
  EXPECT_THAT(error_with({{"a", {7}}}),
              HasSubstr("These run: a (process 7). End them, then remove the file"));
}

}  // namespace
}  // namespace sluice::node
