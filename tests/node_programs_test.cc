// Instances that are programs, born by exec, under a real daemon: they serve, are held to their
// slices, outlive the daemon, and end by signals.
#include "tests/support/program.h"

namespace sluice {
namespace {

struct NodePrograms : testing::Test {
  json start(const std::string& id, const json& program, int request = 300) {
    return node.call(verb::post, "/v1/instances",
                     {{"id", id},
                      {"function", "default/f"},
                      {"device", "cpu0"},
                      {"slice", Node::slice(request)},
                      {"program", program}});
  }
  json ready(const std::string& id, const json& program, int request = 300) {
    const json started = start(id, program, request);
    EXPECT_EQ(started["status"], 202) << started;
    return node.wait(id, "ready");
  }
  // Returns its answer at its address.
  static json ask(const json& instance, const std::string& target = "/") {
    wire::HttpClient client(*wire::parse_endpoint(instance["socket"].get<std::string>()),
                            Seconds(100));
    const auto answer = client.json(verb::post, target);
    return answer.ok() ? *answer : json{{"error", answer.error().message}};
  }
  std::string log_of(const std::string& id) const {
    std::ifstream file(node.data + "/logs/" + id + ".log");
    return (std::ostringstream() << file.rdbuf()).str();
  }
  Node node;
};

TEST_F(NodePrograms, OneWithAPortServesUnderItsSliceAndEndsBySigterm) {
  const json born = ready("a", program_of_node(node, true));
  EXPECT_TRUE(born["socket"].get<std::string>().starts_with("127.0.0.1:")) << born;
  const json self = ask(born, "/?ms=5");
  EXPECT_EQ(self["pid"], born["pid"]);
  EXPECT_EQ(self["gate"], 1);  // it asks for permits
  EXPECT_EQ(self["uid"], geteuid() == 0 ? born["uid"].get<uid_t>() : geteuid());
  EXPECT_EQ(born["uid"] != 0, geteuid() == 0);
  EXPECT_EQ(log_of("a"), "server runs\n");
  EXPECT_EQ(node.resize("a", 700)["slice"]["request"], 700);

  EXPECT_EQ(node.remove("a")["status"], 202);
  const json gone = node.wait("a", "gone");
  EXPECT_EQ(gone["error"], "exit code 0");
  EXPECT_EQ(gone["stopped"], true);
  EXPECT_FALSE(std::filesystem::exists("/proc/" + born["pid"].dump()));  // reaped
}

TEST_F(NodePrograms, OneWithoutAPortServesOnTheDescriptorThatItIsHanded) {
  const json born = ready("a", program_of_node(node, false, "", "test $LISTEN_PID = $$ && "));
  EXPECT_EQ(born["socket"], node.data + "/run/i/a.sock");
  EXPECT_EQ(node.ask("a")["pid"], born["pid"]);
  node.remove("a");
  node.wait("a", "gone");
  EXPECT_FALSE(std::filesystem::exists(node.data + "/run/i/a.sock"));
}

// 100 ms of work at 10 % of the device takes at least half of the ideal time.
TEST_F(NodePrograms, ItIsHeldToItsSlice) {
  const json born = ready("a", program_of_node(node, true), 100);
  const double cores = node.get("/v1/state")["devices"][0]["millicores"].get<double>() / 1000;
  const SteadyClock clock;
  const Time begun = clock.now();
  ask(born, "/?ms=100");
  EXPECT_GT(clock.now() - begun, Millis(50) / std::min(1.0, 0.1 * cores));
  EXPECT_GT(node.get("/v1/state")["instances"][0]["used_ns"], 0);
}

TEST_F(NodePrograms, ItOutlivesTheDaemonAndTheNextOneEndsIt) {
  const json born = ready("a", program_of_node(node, true));
  const json handed = ready("b", program_of_node(node, false));
  node.restart();
  for (const json& before : {born, handed}) {
    const std::string id = before["id"];
    const json now = node.wait(id, "ready");
    EXPECT_EQ(now["pid"], before["pid"]);
    EXPECT_EQ(now["socket"], before["socket"]);
    EXPECT_EQ(ask(now)["pid"], before["pid"]);
    EXPECT_EQ(node.start("more", 701)["status"], 429);  // its share is reserved
    const Fd process = pidfd_of(before["pid"]);
    node.remove(id);
    EXPECT_EQ(node.wait(id, "gone")["stopped"], true);
    EXPECT_TRUE(ends_within(process, Seconds(100)));
  }
}

TEST_F(NodePrograms, ItsOpenMpHasAsManyThreadsAsItsSliceHasCores) {
  const std::string says = "echo \"$OMP_NUM_THREADS threads\"; ";
  json program = program_of_node(node, true, "", says);
  ready("a", program, 100);
  const int millicores = node.get("/v1/state")["devices"][0]["millicores"];
  const std::string cores = std::to_string((millicores + 999) / 1000);
  EXPECT_TRUE(log_of("a").starts_with(cores + " threads\n")) << log_of("a");
  program["environment"]["OMP_NUM_THREADS"] = "7";
  ready("b", program, 100);
  EXPECT_TRUE(log_of("b").starts_with("7 threads\n")) << log_of("b");
}

TEST_F(NodePrograms, AStubbornOneIsKilledAfterItsTime) {
  ready("a", program_of_node(node, true, "stubborn"));
  node.remove("a", 10);
  EXPECT_EQ(node.wait("a", "gone")["error"], "signal 9 (Killed)");
}

TEST_F(NodePrograms, OneThatLeavesOnAnotherSignalGetsThat) {
  // As below a shell that started the platform in the background.
  const auto before = signal(SIGINT, SIG_IGN);
  const auto hangup = signal(SIGHUP, SIG_IGN);
  node.restart();
  signal(SIGINT, before);
  signal(SIGHUP, hangup);
  ready("a", {{"command", {"/usr/bin/python3", "-c", R"(
import signal, socket, sys
assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, lambda *_: sys.exit(7))
listening = socket.create_server(("127.0.0.1", $(PORT)))
while True:
    listening.accept()[0].close()
)"}},
              {"port", 0},
              {"drain_signal", "SIGINT"}});
  EXPECT_EQ(node.remove("a")["status"], 202);
  EXPECT_EQ(node.wait("a", "gone")["error"], "exit code 7");
}

TEST_F(NodePrograms, WhatItHasForkedEndsWithIt) {
  const json born = ready("a", program_of_node(node, true, "", "sleep 1000 & echo $!; "));
  if (cpu_group_of(born["pid"]).empty()) GTEST_SKIP() << "no cgroups";
  const Fd child = pidfd_of(std::stoi(log_of("a")));
  kill(born["pid"].get<pid_t>(), SIGKILL);
  node.wait("a", "gone");
  EXPECT_TRUE(ends_within(child, Seconds(100)));
}

TEST_F(NodePrograms, OneThatIsStoppedWhileItStartsNeverServes) {
  EXPECT_EQ(start("a", program_of_node(node, true, "slow 100000"))["status"], 202);
  node.remove("a");
  EXPECT_EQ(node.wait("a", "gone")["stopped"], true);
  node.ready("rest", 1000);
}

TEST_F(NodePrograms, OneThatWasStartingWhenTheDaemonDiedIsKilled) {
  EXPECT_EQ(start("a", program_of_node(node, true, "slow 100000"))["status"], 202);
  json now = node.get("/v1/instances/a");
  while (now["pid"] == 0 || log_of("a").empty()) now = node.get("/v1/instances/a");
  const Fd process = pidfd_of(now["pid"]);
  node.restart();
  EXPECT_EQ(node.wait("a", "gone")["error"], "the node daemon was restarted while it started");
  EXPECT_TRUE(ends_within(process, Seconds(100)));
}

TEST_F(NodePrograms, OneThatFailsSaysWhy) {
  start("a", program_of_node(node, true, "crash"));
  const json gone = node.wait("a", "gone");
  EXPECT_EQ(gone["error"], "exit code 3; its log ends: server runs");
  EXPECT_EQ(gone["node_fault"], false);
  const std::string script = node.data + "/script";
  std::ofstream(script) << "no interpreter";
  std::filesystem::permissions(script, std::filesystem::perms(0755));
  start("b", {{"command", {script}}, {"port", 0}});
  EXPECT_EQ(node.wait("b", "gone")["error"],
            "exit code 127; its log ends: " + script + ": cannot be run: Exec format error");
}

TEST_F(NodePrograms, WhatCannotBeIsRefusedWithItsReason) {
  const json made = program_of_node(node, true);
  const auto fault = [&](const std::string& field, const json& value) {
    json program = made;
    program[field] = value;
    const json answer = start("x", program);
    EXPECT_EQ(answer["status"], 400) << answer;
    return answer["error"].get<std::string>();
  };
  EXPECT_EQ(fault("command", json::array({"/nowhere"})),
            "program.command: /nowhere: No such file or directory");
  EXPECT_EQ(fault("port", 80),
            "instance.program: program.port: 80: 0 (any) and 1024 to 65535 are allowed");
  const json first = ready("a", made, 100);
  json second = made;
  const std::string at = first["socket"];
  const std::string port = at.substr(at.find(':') + 1);
  second["port"] = std::stoi(port);
  EXPECT_EQ(start("b", second)["error"],
            "program.port: " + port + " is the port of the instance a");
  EXPECT_EQ(start("a", made, 100)["pid"], first["pid"]);  // the same request again
  EXPECT_EQ(start("a", second, 100)["error"], "id: 'a' is another instance");
}

// It has nothing of the daemon's except what the node gives it.
TEST(NodeProgramRights, AProgramHasNoneOfTheDaemons) {
  setenv("SECRET_FOR_TEST", "the daemon's", 1);
  Node node;
  const std::string say =
      "env; grep -E 'NoNewPrivs|CapEff' /proc/self/status; echo groups $(id -G); "
      "ls -m /proc/$$/fd; ";
  json program = program_of_node(node, false, "", say);
  program["environment"].update({{"MODE", "fast"}, {"LD_PRELOAD", "/lib/mine.so"}});
  EXPECT_EQ(node.call(verb::post, "/v1/instances",
                      {{"id", "a"},
                       {"function", "default/f"},
                       {"device", "cpu0"},
                       {"slice", Node::slice(300)},
                       {"program", program}})["status"],
            202);
  node.wait("a", "ready");
  unsetenv("SECRET_FOR_TEST");
  std::ifstream file(node.data + "/logs/a.log");
  const std::string log = (std::ostringstream() << file.rdbuf()).str();
  const auto says = [&](const std::string& line) { return log.find(line) != std::string::npos; };
  EXPECT_FALSE(says("SECRET_FOR_TEST")) << log;
  EXPECT_TRUE(says("MODE=fast\n")) << log;
  EXPECT_TRUE(says("libsluice_gate.so:/lib/mine.so\n")) << log;
  EXPECT_TRUE(says("SLUICE_PERMIT_SOCKET=" + node.data + "/run/p/a/sock\n")) << log;
  EXPECT_TRUE(says("NoNewPrivs:\t1\n")) << log;
  EXPECT_TRUE(says("\n0, 1, 2, 3\n")) << log;  // 3 is the listening socket
  if (geteuid() == 0) {
    EXPECT_TRUE(says("CapEff:\t0000000000000000\n")) << log;
    EXPECT_TRUE(says("groups " + node.get("/v1/instances/a")["uid"].dump() + "\n")) << log;
  }
}

}  // namespace
}  // namespace sluice
