// The death matrix of the node daemon itself (docs/design/processes.md). It is killed within each
// of its labelled steps, while it reserves, saves, launches, resizes, ends and adopts, and the next
// daemon is started, as the supervisor does. A client repeats its request until it is answered, as
// the control loop does. Whatever the step,
//   - its reservations are on disk, whole: the next daemon reads them and goes on;
//   - a holder of a share still has it and was not touched; no share is handed out twice or lost;
//   - no process is left over that no daemon knows of.
// Every label in its sources must have been reached.
#include <gmock/gmock.h>

#include <thread>

#include "tests/support/each_step.h"
#include "tests/support/eventually.h"
#include "tests/support/program.h"

namespace sluice {
namespace {

constexpr int kKeepers = 100;  // permille

class NodeDeath : public testing::Test {
 protected:
  NodeDeath() {
    setenv(kStepsVariable, plan_.environment(Role::kDaemon).c_str(), 1);
    node_ = std::make_unique<Node>(std::vector<std::string>{"--devices", "2"}, nullptr,
                                   "node_main_with_steps");
    keeper_ = node_->ready("keeper", kKeepers);
    for (pid_t& stranger : strangers_) stranger = start_stranger();
  }
  ~NodeDeath() override {
    for (const pid_t stranger : strangers_) {
      kill(stranger, SIGKILL);
      waitpid(stranger, nullptr, 0);
    }
    node_.reset();
    unsetenv(kStepsVariable);
  }

  static pid_t start_stranger() {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }

  // ---- a client's steps -------------------------------------------------------------------------

  json take(const std::string& id, pid_t pid, int request, const std::string& device = "cpu0") {
    return node_->insist(
        verb::post, "/v1/processes",
        {{"id", id}, {"pid", pid}, {"device", device}, {"slice", Node::slice(request)}});
  }
  json start(const std::string& id, int request) {
    return node_->insist(verb::post, "/v1/instances",
                         {{"id", id},
                          {"function", "default/f"},
                          {"device", "cpu0"},
                          {"slice", Node::slice(request)},
                          {"model", {{"path", node_->model("")}}}});
  }
  // An instance of two parts; the second one serves where no request comes.
  json start_program(const std::string& id) {
    const std::string folder = node_->data + "/shared";
    std::filesystem::create_directory(folder);
    std::filesystem::permissions(folder, std::filesystem::perms(0777));
    json parts = json::array();
    for (const char* device : {"cpu0", "cpu1"})
      parts.push_back({{"device", device}, {"slice", Node::slice(300)}});
    const std::string place = ": ${PORT:=" + folder + "/$$.sock}; ";
    return node_->insist(verb::post, "/v1/instances",
                         {{"id", id},
                          {"function", "default/f"},
                          {"parts", parts},
                          {"program", program_of_node(*node_, true, "", place)}});
  }
  json resize(const std::string& id, int request) {
    return node_->insist(verb::patch, "/v1/instances/" + id, {{"slice", Node::slice(request)}});
  }
  // Unknown processes are gone. Versions begin anew with each daemon: none is waited for long.
  json wait_until_settled(const std::string& id) {
    for (uint64_t seen = 0;;) {
      const json state =
          node_->insist(verb::get, "/v1/state?wait_ms=100&after=" + std::to_string(seen));
      seen = state["version"];
      json now = {{"state", "gone"}};
      for (const json& i : state["instances"])
        if (i["id"] == id) now = i;
      if (now["state"] == "ready" || now["state"] == "gone") return now;
    }
  }
  // Ends it, and frees its name.
  void remove(const std::string& id) {
    while (node_->insist(verb::delete_, "/v1/instances/" + id)["status"] != 404)
      (void)wait_until_settled(id);
  }
  // The next daemon gives up an instance that the killed one was about to start, and reports that.
  void start_and_use(const std::string& id) {
    EXPECT_EQ(start(id, 300)["status"], 202);
    const json now = wait_until_settled(id);
    if (now["state"] == "gone") {
      ASSERT_EQ(now["error"], "the node daemon was restarted while it started");
      remove(id);
      return start_and_use(id);
    }
    EXPECT_EQ(resize(id, 400)["status"], 200);
    EXPECT_EQ(node_->insist(verb::get, "/v1/instances/" + id)["slice"]["request"], 400);
    remove(id);
  }
  void start_and_end_program(const std::string& id) {
    EXPECT_EQ(start_program(id)["status"], 202);
    const json now = wait_until_settled(id);
    remove(id);
    if (now["state"] == "ready") return;
    ASSERT_EQ(now["error"], "the node daemon was restarted while it started");
    start_and_end_program(id);
  }
  void ask_for_everything() {
    EXPECT_EQ(take("stranger", strangers_[0], 200)["status"], 200);
    start_and_use("guest");
    start_and_end_program("program");
    remove("stranger");
  }

  // ---- what must hold ---------------------------------------------------------------------------

  // Returns the runtimes of all daemons since then. Those of an earlier test may still be ending.
  size_t runtimes() const {
    std::set<std::string> now = all_runtimes(program_in(*node_));
    for (const std::string& pid : before_) now.erase(pid);
    return now.size();
  }
  // Returns templates and forks of them, and the copy that programs run.
  static std::set<std::string> all_runtimes(const std::string& copy = "none") {
    const std::string runtime = program("fake_runtime");
    std::set<std::string> pids;
    for (const auto& process : std::filesystem::directory_iterator("/proc")) {
      std::error_code gone;
      const auto exe = std::filesystem::read_symlink(process.path() / "exe", gone);
      if (exe == runtime || exe == copy) pids.insert(process.path().filename());
    }
    return pids;
  }

  void expect_all_is_well() {
    const json keeper = node_->get("/v1/instances/keeper");
    EXPECT_EQ(keeper["pid"], keeper_["pid"]) << keeper;
    EXPECT_EQ(keeper["state"], "ready");
    EXPECT_EQ(node_->ask("keeper")["pid"], keeper_["pid"]);
    EXPECT_EQ(take("rest", strangers_[0], 1000 - kKeepers)["status"], 200);
    EXPECT_EQ(take("more", strangers_[1], 1)["status"], 429);
    EXPECT_EQ(take("other", strangers_[1], 1000, "cpu1")["status"], 200);
    remove("rest");
    remove("other");
    EXPECT_TRUE(eventually("a zygote, a template and an instance to be all", [&] {
      return runtimes() <= 3;
    })) << runtimes();
  }

  static std::vector<std::string> labels() {
    return labels_in({"node/births.cc", "node/daemon.cc", "node/exec_launcher.cc",
                      "node/fork_launcher.cc", "node/live_instances.cc", "node/registry.cc",
                      "node/reservations.cc", "node/takeover.cc", "node/zygote_host.cc"});
  }

  const std::set<std::string> before_ = all_runtimes();
  Plan plan_;
  std::unique_ptr<Node> node_;
  json keeper_;
  std::array<pid_t, 2> strangers_{};
};

TEST_F(NodeDeath, ADaemonKilledWithinAnyStep) {
  at_each(plan_, labels(), [&](const std::string& label) {
    node_->stop(SIGKILL);
    plan_.arm(Role::kDaemon, label, SIGKILL);
    node_->launch();
    const pid_t doomed = node_->pid();
    std::thread client([&] {
      ask_for_everything();
      if (plan_.hit() == 0) kill(doomed, SIGTERM);  // no process reached the step
    });
    node_->wait_for_end();
    node_->launch();
    client.join();
    ASSERT_EQ(plan_.hit(), doomed) << "it did not come to this step";
    expect_all_is_well();
  });
  if (HasFailure()) FAIL() << node_->log();
  remove("keeper");
  node_->stop(SIGTERM);
  EXPECT_TRUE(eventually("nothing to be left over", [&] { return runtimes() == 0; }));
}

TEST_F(NodeDeath, WhoDiesWhileTheDaemonAdoptsItIsFoundOut) {
  const pid_t keeper = keeper_["pid"];
  const Fd pidfd = pidfd_of(keeper);
  node_->stop(SIGKILL);
  plan_.arm(Role::kDaemon, "adopt: admitted", SIGSTOP);
  node_->launch();
  waitpid(node_->pid(), nullptr, WUNTRACED);
  kill(keeper, SIGKILL);
  ASSERT_TRUE(ends_within(pidfd, Seconds(60)));
  kill(node_->pid(), SIGCONT);
  EXPECT_THAT(node_->wait("keeper", "gone")["error"].get<std::string>(),
              testing::StartsWith("died while the node daemon started"));
  EXPECT_EQ(take("all", strangers_[0], 1000)["status"], 200);
}

}  // namespace
}  // namespace sluice
