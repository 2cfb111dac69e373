// Each process of the platform killed under load: only what ARCHITECTURE.md names is lost.
#include <signal.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>

#include "cli/platform_processes.h"
#include "tests/support/platform.h"
#include "tests/support/small_disk.h"

namespace sluice {
namespace {

using testing::HasSubstr;

TEST(PlatformFaults, AKilledInstanceLosesNothingThatCanBeSentAgain) {
  Platform p;
  p.deploy({.replicas = 2});
  HeldRequest held(p);
  const pid_t first = busy_one(p);
  ASSERT_GT(first, 0);
  Load load(p, 40, "?ms=1");
  load.flows();
  kill(first, SIGKILL);
  load.flows();
  p.until("/v1/instances", [&](const json&) { return p.pids().count(first) == 0; });
  p.wait_until_settled("f", 2);
  const json answer = held.answer();
  EXPECT_EQ(answer["status"], 200) << answer;
  EXPECT_NE(answer.value("pid", 0), first) << answer;

  const pid_t second = p.a_pid();
  kill(second, SIGKILL);
  p.until("/v1/instances", [&](const json&) { return p.pids().count(second) == 0; });
  p.wait_until_settled("f", 2);
  load.flows();
  const cli::LoadResult r = load.end();
  EXPECT_LE(r.sent - r.ok, 1u) << testing::PrintToString(r.faults);  // one at a time: its credit
}

TEST(PlatformFaults, AKilledNodeDaemonLosesNothingAndGivesNothingAway) {
  Platform p;
  p.deploy({.replicas = 2, .request = 45});
  const std::set<pid_t> before = p.pids();
  const std::string device = p.instances()[0]["device"];
  Load load(p, 40, "?ms=1");
  load.flows();
  p.kill_process("node");
  load.flows();
  wire::HttpClient node({.path = p.data + "/run/node.sock"}, kPatience);
  const auto state = node.json(verb::get, "/v1/state");
  ASSERT_TRUE(state.ok()) << state.error().message;
  EXPECT_EQ((*state)["generation"], 2);
  const auto more = node.json(verb::post, "/v1/instances",
                              {{"id", "more"},
                               {"function", "default/more"},
                               {"device", device},
                               {"slice", {{"sm", 1000}, {"request", 200}, {"limit", 200}}},
                               {"model", {{"path", p.model("")}}}});
  ASSERT_FALSE(more.ok()) << *more;
  EXPECT_EQ(more.error().kind, ErrorKind::kExhausted) << more.error().message;
  load.flows();
  expect_nothing_lost(load.end());
  p.wait_until_settled("f", 2);
  EXPECT_EQ(p.pids(), before);
}

TEST(PlatformFaults, AKilledControlLoopLosesNothing) {
  Platform p;
  p.deploy({.replicas = 2});
  Load load(p, 40, "?ms=1");
  load.flows();
  const std::set<pid_t> instances = p.pids();
  const json decisions = p.get("/v1/decisions?limit=1000");
  const pid_t before = p.pid_of("control");
  p.kill_process("control");
  load.flows();
  EXPECT_EQ(p.function()["revision"], 1);
  EXPECT_NE(p.pid_of("control"), before);
  p.wait_until_settled("f", 2);
  EXPECT_EQ(p.pids(), instances);
  EXPECT_EQ(p.get("/v1/decisions?limit=1000"), decisions);
  load.flows();
  const cli::LoadResult r = load.end();
  expect_nothing_lost(r);
  const json report = p.until("/v1/report", [&](const json& now) {
    return now["functions"][0]["ok"].get<uint64_t>() >= r.ok;
  });
  EXPECT_EQ(report["functions"][0]["requests"], r.sent);  // counted once
}

TEST(PlatformFaults, AKilledSupervisorLosesNothingAndTheNextUpTakesOver) {
  Platform p;
  p.deploy({.replicas = 2});
  Load load(p, 40, "?ms=1");
  load.flows();
  const std::set<pid_t> instances = p.pids();
  std::map<std::string, pid_t> children;
  for (const char* name : {"node", "control", "gateway"}) children[name] = p.pid_of(name);
  EXPECT_EQ(p.stop(SIGKILL), 128 + SIGKILL);
  load.flows();
  p.deploy({.name = "g"});  // it is not missed

  p.launch();
  EXPECT_TRUE(eventually("the adoption",
                         [&] { return p.said().find("gateway: adopted") != std::string::npos; }));
  load.flows();
  expect_nothing_lost(load.end());
  for (const auto& [name, pid] : children) EXPECT_EQ(p.pid_of(name), pid) << name;
  EXPECT_EQ(p.pids(), instances);

  // It starts again what it adopted, on the sockets that users know.
  const wire::Endpoint at = p.gateway();
  p.kill_process("gateway");
  EXPECT_EQ(p.ask()["status"], 200);
  EXPECT_EQ(p.gateway(), at);
  EXPECT_EQ(p.stop(SIGTERM), 0) << p.said();
  for (const pid_t pid : instances) EXPECT_TRUE(is_dead(pid));
}

TEST(PlatformFaults, WhatIsAdoptedGoesOnAsItWasStartedAndTheNextUpSaysWhere) {
  Platform p;
  p.stop(SIGKILL);
  p.launch({"--policy", "exclusive", "--threads", "2"});
  EXPECT_TRUE(eventually("the warning of the last process", [&] {
    return p.said().find("gateway: goes on as it was started: --threads 0 (not 2);") !=
           std::string::npos;
  })) << p.said();
  EXPECT_THAT(p.said(),
              HasSubstr("control: goes on as it was started: --policy has-gpu (not exclusive);"));
}

TEST(PlatformFaults, WhatDiedWhileNobodyLookedIsStartedByTheNextUp) {
  Platform p;
  p.deploy({});
  const std::set<pid_t> instances = p.pids();
  p.stop(SIGKILL);
  p.kill_process("gateway");
  p.kill_process("control");
  EXPECT_EQ(p.cli({"get", "functions"}).code, 4);
  p.launch();
  p.wait_until_serves();
  EXPECT_EQ(p.pids(), instances);
  EXPECT_EQ(p.ask()["status"], 200);
  // Orphans now: stopping finds them too.
  p.stop(SIGKILL);
  const Ended down = p.cli({"down"});
  EXPECT_EQ(down.code, 0) << down.err;
  for (const pid_t pid : instances) EXPECT_TRUE(is_dead(pid));
  EXPECT_EQ(p.cli({"down"}).code, 4);
}

// DATA on a disk of its own, which `fill_with_files` fills.
bool on_small_disk(const std::string& data) {
  return mount_small(data, std::string(kSmallDisk) + ",nr_inodes=400");
}

TEST(PlatformFaults, WhatDiesWhileTheDiskIsFullComesBackAtOnce) {
  if (geteuid() != 0) GTEST_SKIP() << "root alone has a run/ outside of DATA";
  Platform p({}, on_small_disk);
  if (!p.prepared()) GTEST_SKIP() << "mounting is not allowed here";
  p.deploy({.replicas = 2});
  const std::set<pid_t> instances = p.pids();
  fill_with_files(p.data + "/full");
  for (const char* name : {"node", "control", "gateway"}) {
    const pid_t before = p.pid_of(name);
    p.kill_process(name);
    ASSERT_TRUE(eventually("the next one", [&] {
      const pid_t now = p.pid_of(name);
      return now != 0 && now != before;
    })) << name;
    p.wait_until_serves();
    p.wait_until_settled("f", 2);
    EXPECT_EQ(p.ask()["status"], 200) << name;
    EXPECT_EQ(p.pids(), instances) << name;
  }
  const pid_t first = *instances.begin();
  kill(first, SIGKILL);
  p.until("/v1/instances", [&](const json&) { return p.pids().count(first) == 0; });
  p.wait_until_settled("f", 2);
  EXPECT_EQ(p.ask()["status"], 200);
}

TEST(PlatformFaults, ADiskThatWasFullLeavesNothingThatCannotBeTakenOver) {
  Platform p({}, on_small_disk);
  if (!p.prepared()) GTEST_SKIP() << "mounting is not allowed here";
  fill_with_files(p.data + "/full");
  const pid_t before = p.pid_of("gateway");
  p.kill_process("gateway");
  ASSERT_TRUE(eventually("the next gateway", [&] {
    const pid_t now = p.pid_of("gateway");
    return now != 0 && now != before;
  }));
  const pid_t gateway = p.pid_of("gateway");
  std::filesystem::remove_all(p.data + "/full");
  p.stop(SIGKILL);
  p.launch();
  EXPECT_TRUE(eventually("the adoption", [&] {
    return p.said().find("gateway: adopted, pid " + std::to_string(gateway)) != std::string::npos;
  })) << p.said();
  p.stop(SIGKILL);
  EXPECT_EQ(p.cli({"down"}).code, 0);
  EXPECT_TRUE(is_dead(gateway));
}

TEST(PlatformFaults, DownEndsTheInstancesOfANodeDaemonThatDied) {
  Platform p;
  p.deploy({.words = "stubborn", .replicas = 2});
  const std::set<pid_t> instances = p.pids();
  std::future<Ended> down = std::async(std::launch::async, [&] { return p.cli({"down"}); });
  // Its instances were asked to end, and do not.
  wire::HttpClient node({.path = p.data + "/run/node.sock"}, kPatience);
  EXPECT_TRUE(eventually("the draining", [&] {
    const auto state = node.json(verb::get, "/v1/state");
    if (!state.ok()) return false;
    for (const json& i : (*state)["instances"])
      if (i["state"] == "draining") return true;
    return false;
  }));
  p.kill_process("node");
  const Ended ended = down.get();
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const pid_t pid : instances) EXPECT_TRUE(is_dead(pid));
  EXPECT_TRUE(cli::platform_processes(p.data).empty());
}

TEST(PlatformFaults, DownFindsInstancesThatAreLeftAlone) {
  Platform p;
  p.deploy({});
  const std::set<pid_t> instances = p.pids();
  p.stop(SIGKILL);
  for (const char* name : {"node", "control", "gateway"}) p.kill_process(name);
  EXPECT_FALSE(is_dead(*instances.begin()));
  const Ended down = p.cli({"down"});
  EXPECT_EQ(down.code, 0) << down.err;
  for (const pid_t pid : instances) EXPECT_TRUE(is_dead(pid));
  EXPECT_EQ(p.cli({"down"}).code, 4);
}

TEST(PlatformFaults, AKilledGatewayLosesItsOpenRequestsAndNewOnesWait) {
  Platform p;
  p.deploy({.replicas = 2});
  HeldRequest held(p);
  ASSERT_GT(busy_one(p), 0);
  Load load(p, 40, "?ms=1");
  load.flows();

  // While the supervisor is stopped the gateway is not started again: new connections wait.
  const pid_t supervisor = p.supervisor();
  kill(supervisor, SIGSTOP);
  p.kill_process("gateway");
  namespace asio = boost::asio;
  asio::io_context io;
  asio::ip::tcp::socket waiting(io);
  waiting.connect({asio::ip::make_address(p.gateway().host), p.gateway().port});
  const std::string request =
      "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: "
      "close\r\n\r\n{}";
  asio::write(waiting, asio::buffer(request));
  kill(supervisor, SIGCONT);
  std::string answer;
  boost::system::error_code end;
  asio::read(waiting, asio::dynamic_buffer(answer), end);
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 200 OK"));

  EXPECT_EQ(held.answer()["status"], 0);  // it was open
  load.flows();
  const cli::LoadResult r = load.end();
  EXPECT_LE(r.sent - r.ok, static_cast<uint64_t>(kLoadConnections))
      << testing::PrintToString(r.faults);
}

// A hung process delays neither the API nor, except for the gateway, running requests.
TEST(PlatformFaults, AStoppedProcessDoesNotHoldUpTheApi) {
  Platform p;
  p.deploy({});
  const std::set<pid_t> before = p.pids();
  // Below the time-out of the loop's own calls: an answer that waited for one of them would fail.
  const Nanos patience = Seconds(4);
  for (const char* name : {"node", "gateway"}) {
    const pid_t stopped = p.pid_of(name);
    kill(stopped, SIGSTOP);
    for (int i = 0; i < 20; ++i) {
      wire::HttpClient api({.path = p.data + "/run/api.sock"}, patience);
      const auto rows = api.json(verb::get, "/v1/functions");
      ASSERT_TRUE(rows.ok()) << name << ": " << rows.error().message;
      EXPECT_EQ(rows->size(), 1u);
    }
    p.until("/v1/status", [&](const json& status) { return status[name] == false; });
    EXPECT_GT(p.function()["stale_ms"], 0) << name;
    EXPECT_EQ(p.pids(), before) << name;
    EXPECT_EQ(p.apply({}).code, 0) << name;
    const bool serves = name == std::string("node");
    EXPECT_TRUE(!serves || p.ask()["status"] == 200);
    kill(stopped, SIGCONT);
    p.until("/v1/status", [&](const json& status) { return status[name] == true; });
  }
  p.wait_until_settled("f", 1);
  EXPECT_EQ(p.function()["stale_ms"], 0);
  EXPECT_EQ(p.ask()["status"], 200);
}

}  // namespace
}  // namespace sluice
