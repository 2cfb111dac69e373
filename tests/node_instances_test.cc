// Instances' life cycles under a real daemon: start, serve, resize, drain, and every way to fail.
#include <map>

#include "tests/support/node.h"

namespace sluice {
namespace {

TEST(NodeInstances, StartServeResizeDrain) {
  Node node;
  const json born = node.ready("a", 200);
  EXPECT_GT(born["ready_after_ms"], 0);
  const json self = node.ask("a", "/burn?ms=5");
  EXPECT_EQ(self["pid"], born["pid"]);
  EXPECT_EQ(self["gate"], 1);  // attached: nothing runs unenforced
  EXPECT_EQ(self["uid"], geteuid() == 0 ? born["uid"].get<uid_t>() : geteuid());

  EXPECT_EQ(node.resize("a", 700)["slice"]["request"], 700);
  EXPECT_EQ(node.get("/v1/instances/a")["slice"]["request"], 700);
  EXPECT_EQ(node.remove("a")["status"], 202);
  EXPECT_EQ(node.wait("a", "gone")["error"], "exit code 0");
  EXPECT_FALSE(std::filesystem::exists(node.data + "/run/i/a.sock"));
  EXPECT_EQ(node.remove("a")["status"], 202);  // forgets it
  EXPECT_EQ(node.get("/v1/instances/a")["status"], 404);
}

TEST(NodeInstances, AskingTwiceStartsOnce) {
  Node node;
  const json first = node.ready("a", 200);
  const json again = node.start("a", 200);
  EXPECT_EQ(again["status"], 202);
  EXPECT_EQ(again["pid"], first["pid"]);
  const json other = node.start("a", 200, "busy");
  EXPECT_EQ(other["status"], 409);
  EXPECT_EQ(other["error"], "id: 'a' is another instance");
}

TEST(NodeInstances, WhatDoesNotFitIsRefusedWithItsReason) {
  Node node;
  node.ready("a", 700);
  EXPECT_EQ(node.start("b", 301)["status"], 429);
  node.ready("b", 300);
  const json grown = node.resize("b", 301);
  EXPECT_EQ(grown["status"], 429);
  EXPECT_EQ(grown["error"],
            "cpu0 has no room for sm 100% × request 30.1% beside what it has promised");
  EXPECT_EQ(node.start("c", 100, "", "cpu9")["error"], "device: there is no 'cpu9' on this node");
  EXPECT_EQ(node.start("../c", 100, "", "cpu1")["status"], 400);
  EXPECT_EQ(node.start(std::string(120, 'c'), 100, "", "cpu1")["status"], 400);
  EXPECT_EQ(node.call(verb::post, "/v1/instances", {{"id", "c"}})["error"],
            "instance.slice: is missing");
  EXPECT_EQ(node.resize("nobody", 100)["status"], 404);
}

TEST(NodeInstances, ADeviceInUseRefusesAnotherArbiterAlsoAfterARestart) {
  Node node;
  ASSERT_EQ(node.start("a", 100, "", "cpu0", "introspective")["status"], 202);
  node.wait("a", "ready");
  const std::string refused =
      "cpu0 runs the arbiter introspective for a; b needs the arbiter planned";
  for (int daemon = 0; daemon < 2; ++daemon) {
    const json other = node.start("b", 100, "", "cpu0", "planned");
    EXPECT_EQ(other["status"], 409);
    EXPECT_EQ(other["error"], refused);
    EXPECT_EQ(node.get("/v1/instances/a")["arbiter"], "introspective");
    EXPECT_EQ(node.get("/v1/state")["devices"][0]["window_us"], 5000);
    EXPECT_EQ(node.ask("a", "/burn?ms=5")["gate"], 1);
    node.restart();
  }
  EXPECT_EQ(node.start("b", 100, "", "cpu1", "fair")["status"], 400);
  EXPECT_EQ(node.start("b", 100, "", "cpu1", "shares")["error"],
            "arbiter: 'shares' is none of planned, deadline, window, multi_token, introspective, "
            "share_fixed_limit, share_fixed_request, tgs, which a CPU can run");
  node.remove("a");
  node.wait("a", "gone");
  ASSERT_EQ(node.start("b", 100, "", "cpu0", "planned")["status"], 202);
  EXPECT_EQ(node.wait("b", "ready")["arbiter"], "planned");
  EXPECT_EQ(node.ask("b", "/burn?ms=5")["gate"], 1);
  EXPECT_EQ(node.get("/v1/state")["devices"][0]["window_us"], 20'000);
}

TEST(NodeInstances, TheUsersArbiterRulesOverTheOneThatAStartNames) {
  Node node({"--arbiter", "deadline"});
  ASSERT_EQ(node.start("a", 100, "", "cpu0", "planned")["status"], 202);
  ASSERT_EQ(node.start("b", 100, "", "cpu0", "window")["status"], 202);
  EXPECT_EQ(node.wait("b", "ready")["arbiter"], "deadline");
  EXPECT_EQ(node.get("/v1/state")["devices"][0]["arbiter"], "deadline");
}

TEST(NodeInstances, ADrainedDeviceTakesNothingNewAlsoAfterARestart) {
  Node node;
  node.ready("a", 100);
  EXPECT_EQ(node.call(verb::patch, "/v1/devices/cpu0", {{"drained", true}})["status"], 200);
  EXPECT_EQ(node.start("b", 100)["status"], 429);
  node.restart();
  EXPECT_EQ(node.start("b", 100)["status"], 429);
  EXPECT_EQ(node.get("/v1/instances/a")["state"], "ready");
  EXPECT_EQ(node.call(verb::patch, "/v1/devices/cpu0", {{"drained", false}})["status"], 200);
  node.ready("b", 100);
}

pid_t idle_child() {
  const pid_t pid = fork();
  if (pid == 0)
    for (;;) pause();
  return pid;
}
void kill_it(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

// The free time of their lane lies in pieces, before, between and after them.
TEST(NodeInstances, ProgramsAreShiftedInTimeWhereOneNeedsTheRoom) {
  Node node;
  std::map<std::string, pid_t> programs;
  const auto take = [&](const std::string& id, int request) {
    programs[id] = idle_child();
    return node.call(verb::post, "/v1/processes",
                     {{"id", id},
                      {"pid", programs[id]},
                      {"device", "cpu0"},
                      {"slice", Node::slice(request)}})["status"];
  };
  EXPECT_EQ(take("a", 300), 200);
  EXPECT_EQ(take("b", 300), 200);
  EXPECT_EQ(take("c", 400), 200);
  EXPECT_EQ(node.resize("a", 200)["status"], 200);
  EXPECT_EQ(node.resize("b", 100)["status"], 200);
  EXPECT_EQ(node.resize("c", 600)["status"], 200);
  EXPECT_EQ(node.resize("c", 701)["status"], 429);
  EXPECT_EQ(node.resize("b", 50)["status"], 200);
  EXPECT_EQ(take("d", 150), 200);
  EXPECT_EQ(take("e", 1), 429);
  node.restart();
  for (const char* id : {"a", "b", "c", "d"})
    EXPECT_EQ(node.get("/v1/instances/" + std::string(id))["state"], "ready");
  for (const auto& [id, pid] : programs) kill_it(pid);
}

TEST(NodeInstances, WhatWasStartedForAProcessEndsWithIt) {
  Node node;
  const auto start_for = [&](const std::string& id, pid_t owner) {
    return node.call(verb::post, "/v1/instances",
                     {{"id", id},
                      {"function", "default/f"},
                      {"device", "cpu0"},
                      {"slice", Node::slice(400)},
                      {"owner", owner},
                      {"model", {{"path", node.model("")}}}});
  };
  const pid_t one = idle_child(), other = idle_child();
  EXPECT_EQ(start_for("a", one)["status"], 202);
  EXPECT_EQ(start_for("b", other)["status"], 202);
  node.wait("a", "ready");
  node.wait("b", "ready");
  kill_it(one);
  node.wait("a", "gone");
  EXPECT_EQ(node.get("/v1/instances/b")["state"], "ready");
  node.restart();  // the restart forgets nothing
  EXPECT_EQ(node.get("/v1/instances/b")["state"], "ready");
  kill_it(other);
  node.wait("b", "gone");
  const json nobodys = start_for("c", one);
  EXPECT_EQ(nobodys["status"], 400);
  EXPECT_EQ(nobodys["error"], "owner: " + std::to_string(one) + " is no process here");
}

struct Failing {
  std::string words, error;
};
class NodeFailing : public testing::TestWithParam<Failing> {};

TEST_P(NodeFailing, SaysWhyAndFreesTheShare) {
  Node node;
  EXPECT_EQ(node.start("a", 1000, GetParam().words)["status"], 202);
  std::string wanted = GetParam().error;
  if (const size_t at = wanted.find("MODEL"); at != wanted.npos)
    wanted.replace(at, 5, node.model(GetParam().words));
  const json gone = node.wait("a", "gone");
  EXPECT_EQ(gone["error"], wanted);
  EXPECT_EQ(gone["node_fault"], false);
  node.ready("b", 1000);
}

INSTANTIATE_TEST_SUITE_P(
    , NodeFailing,
    testing::Values(Failing{"fail", "MODEL: not a model"},
                    Failing{"crash", "exit code 3; its log ends: a runs\nno such tensor"}));

TEST(NodeInstances, AStubbornOneIsKilledAfterItsTime) {
  Node node;
  node.ready("a", 500, "stubborn");
  node.remove("a", 50);
  EXPECT_EQ(node.wait("a", "gone")["error"], "signal 9 (Killed)");
}

TEST(NodeInstances, ATimeToDrainEndsWithTheProcessThatHadIt) {
  constexpr int kDrainMs = 2000;
  Node node;
  node.ready("timer", 200, "stubborn");
  node.ready("a", 200);
  node.remove("a", kDrainMs);
  node.wait("a", "gone");
  node.remove("a");  // its name is free
  const json another = node.ready("a", 200);
  node.remove("timer", kDrainMs);
  node.wait("timer", "gone");  // its time began last, so the first a's is over, too
  EXPECT_EQ(node.ask("a")["pid"], another["pid"]);
}

TEST(NodeInstances, OneThatIsStoppedWhileItStartsNeverServes) {
  Node node;
  node.start("a", 500, "deaf");
  node.remove("a");
  EXPECT_NE(node.wait("a", "gone")["error"], "");
  node.start("b", 500, "slow 50");
  node.remove("b");
  EXPECT_NE(node.wait("b", "gone")["error"], "");
  node.ready("c", 1000);
}

// A request makes "big" take more than its function states; "small" runs beside it.
struct NodeMemory : testing::Test {
  void SetUp() override {
    for (const char* id : {"big", "small"}) {
      const json started = node.call(verb::post, "/v1/instances",
                                     {{"id", id},
                                      {"function", "default/f"},
                                      {"device", "cpu0"},
                                      {"slice", Node::slice(200, 200, Bytes{32} << 20)},
                                      {"model", {{"path", node.model("")}}}});
      ASSERT_EQ(started["status"], 202) << started;
      node.wait(id, "ready");
    }
    enforcement = node.get("/v1/state")["enforcement"];
  }
  bool by_cgroup() const {
    return enforcement.find("memory of instances limited by cgroup") != enforcement.npos;
  }
  Node node;
  std::string enforcement;
};

TEST_F(NodeMemory, AnInstanceThatTakesMoreThanItsMemoryIsKilledAlone) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer takes several times the memory that its program asks for";
#endif
  if (!by_cgroup()) GTEST_SKIP() << enforcement;
  EXPECT_EQ(node.ask("big", "/?mib=32")["taken"], true);
  EXPECT_NE(node.ask("big", "/?mib=1000").value("error", ""), "");
  const std::string error = node.wait("big", "gone")["error"];
  EXPECT_TRUE(error.starts_with("killed by its memory limit (memory: 32Mi)")) << error;
  EXPECT_EQ(node.ask("small", "/?mib=32")["taken"], true);
  EXPECT_EQ(node.get("/v1/instances/small")["state"], "ready");
}

TEST_F(NodeMemory, TheLimitSurvivesTheDaemon) {
  if (!by_cgroup()) GTEST_SKIP() << enforcement;
  node.restart();
  node.wait("big", "ready");
  EXPECT_NE(node.ask("big", "/?mib=1000").value("error", ""), "");
  const std::string error = node.wait("big", "gone")["error"];
  EXPECT_TRUE(error.starts_with("killed by its memory limit (memory: 32Mi)")) << error;
}

// Without a memory cgroup an allocation fails, and the instance goes on.
TEST_F(NodeMemory, WithoutACgroupAnAllocationBeyondTheMemoryFails) {
  if (by_cgroup()) GTEST_SKIP() << enforcement;
  EXPECT_EQ(node.ask("big", "/?mib=32")["taken"], true);
  EXPECT_EQ(node.ask("big", "/?mib=1000")["taken"], false);
  EXPECT_EQ(node.get("/v1/instances/big")["state"], "ready");
}

TEST(NodeInstances, ManyStartsAtOnceShareOneTemplate) {
  Node node;
  for (int i = 0; i < 8; ++i) node.start("i" + std::to_string(i), 100, "slow 50");
  for (int i = 0; i < 8; ++i) node.wait("i" + std::to_string(i), "ready");
  const std::string log = node.log();
  EXPECT_EQ(log.find("template"), log.rfind("template"));
}

TEST(NodeInstances, AModelOrDescriptionThatChangedIsLoadedAnew) {
  Node node;
  const std::filesystem::path model = node.model("m");
  auto loaded = [&, started = 0]() mutable {
    node.ready("i" + std::to_string(started++), 100, "m");
    const std::string log = node.log();
    int times = 0;
    for (size_t at = 0; (at = log.find(" warm after", at)) != log.npos; ++at) ++times;
    return times;
  };
  EXPECT_EQ(loaded(), 1);
  EXPECT_EQ(loaded(), 1);
  std::ofstream(std::filesystem::path(model).replace_extension(".json")) << "{}";
  EXPECT_EQ(loaded(), 2);
  std::ofstream(model, std::ios::app) << " ";
  EXPECT_EQ(loaded(), 3);
}

}  // namespace
}  // namespace sluice
