// The node daemon whose instances are Pods: their processes are a kubelet's (a stand-in), and the
// daemon finds them, holds them to their slices, and says when they serve.
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/kubelet.h"

namespace sluice {
namespace {

constexpr double kMargin = 1.2;  // of the backstop, above the limit

struct NodePods : testing::Test {
  NodePods() { launch(); }
  void SetUp() override {
    if (const std::string why = kubelet->cannot(); !why.empty()) GTEST_SKIP() << why;
  }
  // What has no process ends by being stopped.
  void TearDown() override {
    for (const json& i : node->get("/v1/state").value("instances", json::array()))
      if (i["state"] != "gone" && i["pid"] == 0) node->remove(i["id"]);
  }
  void launch(std::vector<std::string> more = {}) {
    if (node) TearDown();
    node.reset();
    kubelet.reset();
    more.insert(more.end(), {"--grace-ms", "100"});
    const auto prepare = [&](const std::string& data) {
      kubelet = std::make_unique<Kubelet>(data);
      return true;
    };
    node = std::make_unique<Node>(more, prepare, "pod_node_main");
  }
  json reserve(const std::string& id, int request, const json& birth = nullptr) {
    json body = {
        {"id", id}, {"function", "default/f"}, {"device", "cpu0"}, {"slice", Node::slice(request)}};
    if (birth.is_null())
      body["model"] = {{"path", "/models/of/the/image.pt"}};
    else
      body["program"] = birth;
    return node->call(verb::post, "/v1/instances", body);
  }
  // Each Pod of this process has an address of its own.
  static std::string ip_of(const std::string& id) {
    const size_t mixed = std::hash<std::string>()(id + std::to_string(getpid()));
    return "127." + std::to_string(1 + mixed % 200) + "." + std::to_string(mixed / 200 % 250) +
           "." + std::to_string(2 + mixed / 50000 % 250);
  }
  void run(const std::string& id, const std::string& words = "", int millicores = 0,
           const std::string& port = "8080") {
    kubelet->run(id,
                 {program("fake_runtime"), "serve", "--model", node->model(words), "--name", id,
                  "--listen", ip_of(id) + ":" + port},
                 millicores);
  }
  // From the reservation to readiness.
  json ready(const std::string& id, int request, const std::string& words = "") {
    EXPECT_EQ(reserve(id, request)["status"], 202);
    kubelet->schedule(id);
    run(id, words);
    kubelet->say_runs(id, ip_of(id));
    return node->wait(id, "ready");
  }
  // Of a slice on cpu0, in millicores.
  double backstop(int request) {
    return node->get("/v1/state")["devices"][0]["millicores"].get<double>() * request / 1000 *
           kMargin;
  }
  bool has_quota(const std::string& id, double millicores) const {
    return std::abs(kubelet->bound(id) - millicores) < 1;
  }
  json ask(const std::string& id, const std::string& target = "/") const {
    wire::HttpClient client({.host = ip_of(id), .port = 8080}, Seconds(100));
    const auto answer = client.json(verb::post, target);
    return answer.ok() ? *answer : json{{"error", answer.error().message}};
  }
  // Its first work may not wait for as long as a slow machine takes to let it join.
  bool joins(const std::string& id) {
    return eventually("its permits", [&] { return ask(id, "/?ms=5").value("gate", 0) == 1; });
  }
  // Of its device's time, while `span` passes, as the kernel counts its Pod.
  double used_share(const std::string& id, Nanos span) {
    const SteadyClock clock;
    const auto used = [&] {
      const json now = node->get("/v1/state");
      for (const json& i : now["instances"])
        if (i["id"] == id) return i["used_ns"].get<double>();
      return 0.0;
    };
    const double before = used();
    const Time begun = clock.now();
    while (clock.now() - begun < span) usleep(10'000);
    return (used() - before) / static_cast<double>((clock.now() - begun).count());
  }
  std::unique_ptr<Kubelet> kubelet;  // ends last
  std::unique_ptr<Node> node;
};

TEST_F(NodePods, OneIsFoundHeldToItsSliceServedAndForgotten) {
  EXPECT_EQ(reserve("a", 200)["status"], 202);
  EXPECT_EQ(reserve("more", 801)["status"], 429);  // reserved, though there is no Pod yet
  kubelet->schedule("a");
  run("a");
  EXPECT_TRUE(eventually("a quota before the kubelet says that it runs",
                         [&] { return kubelet->quota("a", Kubelet::held("a")) > 0; }));
  EXPECT_EQ(node->get("/v1/instances/a")["state"], "starting");
  kubelet->say_runs("a", ip_of("a"));
  const json born = node->wait("a", "ready");
  EXPECT_EQ(born["socket"], ip_of("a") + ":8080");
  EXPECT_EQ(born["pid"], kubelet->pid("a"));
  EXPECT_EQ(born["pod"], Kubelet::uid_of("a"));
  EXPECT_TRUE(has_quota("a", backstop(200)));
  const json self = ask("a", "/?ms=5");
  EXPECT_EQ(self["pid"], born["pid"]);
  EXPECT_TRUE(joins("a"));  // at the folder that all Pods have
  EXPECT_EQ(kubelet->quota("a", Kubelet::other("a")), 0) << "it stays the kubelet's";

  EXPECT_EQ(node->resize("a", 100)["status"], 200);
  EXPECT_TRUE(eventually("a lower quota", [&] { return has_quota("a", backstop(100)); }));
  EXPECT_EQ(node->resize("a", 700)["status"], 200);
  EXPECT_TRUE(eventually("a higher quota", [&] { return has_quota("a", backstop(700)); }));
  EXPECT_EQ(node->resize("a", 1001)["status"], 400);

  EXPECT_EQ(node->remove("a", 100'000)["status"], 202);
  EXPECT_EQ(node->get("/v1/instances/a")["state"], "draining");
  EXPECT_EQ(kill(kubelet->pid("a"), 0), 0);  // its kubelet ends it
  kubelet->ask_to_end("a");
  const json gone = node->wait("a", "gone");
  EXPECT_EQ(gone["stopped"], true);
  EXPECT_EQ(node->remove("a")["status"], 202);
  EXPECT_EQ(node->get("/v1/instances/a")["status"], 404);
  EXPECT_EQ(reserve("rest", 1000)["status"], 202);
}

// Any user may make one, with the labels and the name of an instance's.
TEST_F(NodePods, APodOfAnotherNamespaceIsNotTheInstances) {
  kubelet->say("a", {{"uid", Kubelet::uid_of("a")}, {"name", "other/a"}, {"ended", true}});
  EXPECT_EQ(reserve("a", 200)["status"], 202);
  ready("b", 200);
  EXPECT_EQ(node->get("/v1/instances/a")["state"], "starting");
  kubelet->say("a", {{"ended", false}});
  kubelet->schedule("a");
  run("a");
  kubelet->say_runs("a", ip_of("a"));
  EXPECT_EQ(node->wait("a", "ready")["pid"], kubelet->pid("a"));
}

TEST_F(NodePods, TheFolderOfThePermitSocketHasNothingElse) {
  node->get("/v1/state");
  struct stat folder {
  }, socket{};
  ASSERT_EQ(stat((node->data + "/permits").c_str(), &folder), 0);
  EXPECT_EQ(folder.st_mode & 07777, 0755u);
  ASSERT_EQ(stat((node->data + "/permits/permit.sock").c_str(), &socket), 0);
  EXPECT_EQ(socket.st_mode & 0777, 0666u);
  ready("a", 200);
  std::filesystem::directory_iterator entries(node->data + "/permits");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

// The runtime joins as it starts, before the kubelet has written that its container runs.
TEST_F(NodePods, AModelServerIsFoundByItsPermitAndReadyAtItsAddress) {
  const std::string model = node->data + "/spin.txt";
  std::ofstream(model) << R"({"builtin": "spin", "spin_us": 100})";
  std::ofstream(node->data + "/spin.json")
      << R"({"platform": "sluice_builtin", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 1]}],
             "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 1]}]})";
  EXPECT_EQ(reserve("a", 200)["status"], 202);
  kubelet->schedule("a");
  kubelet->run("a", {program("sluice-runtime"), "serve", "--model", model, "--name", "default/f",
                     "--model-version", "3", "--batch", "4", "--max-batch", "8", "--listen",
                     ip_of("a") + ":8080"});
  EXPECT_TRUE(eventually("its process",
                         [&] { return node->get("/v1/instances/a")["pid"] == kubelet->pid("a"); }));
  kubelet->say("a", {{"ip", ip_of("a")}});
  node->wait("a", "ready");
  wire::HttpClient client({.host = ip_of("a"), .port = 8080}, Seconds(100));
  const auto served = client.json(verb::get, "/v2/models/default%2Ff/versions/3");
  ASSERT_TRUE(served.ok()) << served.error().message;
  EXPECT_EQ((*served)["name"], "default/f");
  EXPECT_TRUE(has_quota("a", backstop(200)));
  const Fd process = pidfd_of(kubelet->pid("a"));
  kubelet->ask_to_end("a");
  const json gone = node->wait("a", "gone");
  EXPECT_TRUE(ends_within(process, Seconds(100)));
  int status = -1;
  EXPECT_EQ(kubelet->wait_for("a", status), true);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(NodePods, ItIsNeverRaisedAboveItsKubeletsLimit) {
  const double device = backstop(1000) / kMargin;
  EXPECT_EQ(reserve("a", 900)["status"], 202);
  kubelet->schedule("a");
  run("a", "", static_cast<int>(device / 2));
  kubelet->say_runs("a", ip_of("a"));
  node->wait("a", "ready");
  const double given = kubelet->quota("a", "");
  EXPECT_TRUE(has_quota("a", given)) << kubelet->bound("a");
  node->restart();
  node->wait("a", "ready");
  EXPECT_EQ(node->resize("a", 100)["status"], 200);
  EXPECT_TRUE(eventually("a lower quota", [&] { return has_quota("a", backstop(100)); }));
  EXPECT_EQ(node->resize("a", 900)["status"], 200);
  EXPECT_TRUE(eventually("the kubelet's quota", [&] { return has_quota("a", given); }));
  EXPECT_EQ(node->get("/v1/state")["instances"][0]["error"], "");  // nothing was refused
}

TEST_F(NodePods, OneThatNeverComesSaysWhatItsPodWaitsFor) {
  launch({"--ready-patience-ms", "1000"});
  EXPECT_EQ(reserve("none", 100)["status"], 202);
  EXPECT_EQ(reserve("waits", 100)["status"], 202);
  kubelet->schedule("waits");
  kubelet->say("waits", {{"why", "Unschedulable: 0/2 nodes are available"}});
  EXPECT_EQ(reserve("fetches", 100)["status"], 202);
  kubelet->schedule("fetches");
  kubelet->say("fetches", {{"prepares", true}});
  EXPECT_EQ(node->wait("none", "gone")["error"],
            "did not start within 1 s: its Pod has not appeared");
  const json gone = node->wait("waits", "gone");
  EXPECT_EQ(gone["error"],
            "did not start within 1 s: its Pod default/waits is Pending: "
            "Unschedulable: 0/2 nodes are available");
  EXPECT_EQ(gone["node_fault"], true);
  node->wait("fetches", "starting");
  kubelet->say("fetches", {{"prepares", false}});
  EXPECT_EQ(node->wait("fetches", "gone")["error"],
            "did not start within 1 s: its Pod default/fetches is Pending");
  EXPECT_EQ(reserve("rest", 1000)["status"], 202);
}

TEST_F(NodePods, OneWhosePodFailsToStartIsNotTheNodesFault) {
  EXPECT_EQ(reserve("a", 100)["status"], 202);
  kubelet->schedule("a");
  kubelet->say("a", {{"ended", true}, {"phase", "Failed"}, {"why", "ErrImageNeverPull"}});
  const json gone = node->wait("a", "gone");
  EXPECT_EQ(gone["error"], "its Pod default/a is Failed: ErrImageNeverPull");
  EXPECT_EQ(gone["node_fault"], false);
}

TEST_F(NodePods, WithoutTheApiServerNothingIsGivenUpAndNothingEnds) {
  launch({"--ready-patience-ms", "1000"});
  ready("lives", 200);
  EXPECT_EQ(reserve("starts", 200)["status"], 202);
  kubelet->say_current(false);
  node->restart();
  node->wait("lives", "ready");
  const SteadyClock clock;
  for (const Time begun = clock.now(); clock.now() - begun < Seconds(3);) {
    const json now = node->get("/v1/state?wait_ms=500");
    for (const json& i : now["instances"]) ASSERT_NE(i["state"], "gone") << i;
  }
  EXPECT_EQ(node->resize("lives", 100)["status"], 200);
  EXPECT_TRUE(eventually("a lower quota", [&] { return has_quota("lives", backstop(100)); }));
  kubelet->schedule("starts");
  run("starts");
  kubelet->say_runs("starts", ip_of("starts"));
  kubelet->say_current(true);
  node->wait("starts", "ready");
}

TEST_F(NodePods, OneThatDiesIsGoneAtOnceAndItsPodSaysWhy) {
  ready("a", 200);
  kill(kubelet->pid("a"), SIGKILL);
  const json gone = node->wait("a", "gone");
  EXPECT_EQ(gone["stopped"], false);
  EXPECT_EQ(reserve("rest", 1000)["status"], 202);
  kubelet->say("a", {{"phase", "Failed"}, {"why", "OOMKilled (exit code 137)"}, {"ended", true}});
  EXPECT_TRUE(eventually("the Pod's words", [&] {
    return node->get("/v1/instances/a")["error"].get<std::string>().ends_with(
        "; its Pod: OOMKilled (exit code 137)");
  })) << node->get("/v1/instances/a");
}

TEST_F(NodePods, TheNextDaemonAdoptsThem) {
  const json born = ready("a", 200);
  EXPECT_EQ(reserve("b", 200)["status"], 202);
  kubelet->schedule("b");
  node->restart();
  const json now = node->wait("a", "ready");
  EXPECT_EQ(now["pid"], born["pid"]);
  EXPECT_EQ(now["socket"], born["socket"]);
  EXPECT_EQ(reserve("more", 601)["status"], 429);
  EXPECT_TRUE(joins("a"));
  run("b");
  kubelet->say_runs("b", ip_of("b"));
  node->wait("b", "ready");  // it was starting
  EXPECT_EQ(node->resize("a", 100)["status"], 200);
  EXPECT_TRUE(eventually("a lower quota", [&] { return has_quota("a", backstop(100)); }));
  node->stop(SIGKILL);
  kill(kubelet->pid("a"), SIGKILL);
  node->launch();
  EXPECT_EQ(node->wait("a", "gone")["error"], "died while no node daemon ran");
  EXPECT_EQ(node->get("/v1/instances/b")["state"], "ready");
}

TEST_F(NodePods, OneThatItsKubeletDoesNotEndIsKilledAfterItsTimeAndTheGrace) {
  ready("a", 200, "stubborn");
  const Fd process = pidfd_of(kubelet->pid("a"));
  EXPECT_EQ(node->remove("a", 10)["status"], 202);
  EXPECT_TRUE(ends_within(process, Seconds(100)));
  EXPECT_EQ(node->wait("a", "gone")["stopped"], true);
}

TEST_F(NodePods, OneWhosePodIsDeletedDrains) {
  ready("a", 200, "stubborn");
  kubelet->ask_to_end("a");
  EXPECT_EQ(node->wait("a", "draining")["state"], "draining");
  kill(kubelet->pid("a"), SIGKILL);
  EXPECT_EQ(node->wait("a", "gone")["stopped"], true);
}

TEST_F(NodePods, OneThatIsStoppedWhileItStartsIsForgotten) {
  EXPECT_EQ(reserve("a", 1000)["status"], 202);
  EXPECT_EQ(node->remove("a")["status"], 202);
  EXPECT_EQ(node->wait("a", "gone")["stopped"], true);
  EXPECT_EQ(reserve("rest", 1000)["status"], 202);
}

TEST_F(NodePods, AProgramServesAtItsOwnPort) {
  EXPECT_EQ(reserve("a", 200, {{"command", {"/in/the/image"}}, {"port", 9000}})["status"], 202);
  kubelet->schedule("a");
  run("a", "", 0, "9000");
  kubelet->say_runs("a", ip_of("a"));
  EXPECT_EQ(node->wait("a", "ready")["socket"], ip_of("a") + ":9000");
}

// A Pod that is no instance: the slice comes and goes while it runs.
TEST_F(NodePods, AnotherPodIsUnderASliceUntilItIsReleased) {
  const std::string id = "pod-" + Kubelet::uid_of("x");
  const auto take = [&](int request, const std::string& device = "") {
    return node->call(verb::post, "/v1/pods",
                      {{"uid", Kubelet::uid_of("x")},
                       {"name", "default/x"},
                       {"device", device},
                       {"slice", Node::slice(request)}});
  };
  EXPECT_EQ(reserve("a", 900)["status"], 202);  // of cpu0
  EXPECT_EQ(take(1001)["status"], 400);
  EXPECT_EQ(take(200, "cpu0")["status"], 429);
  const json taken = take(200);
  EXPECT_EQ(taken["status"], 202) << taken;
  EXPECT_EQ(taken["device"], "cpu1");
  EXPECT_EQ(take(200)["id"], id);
  const double given = backstop(1000) / kMargin / 4;
  run("x", "", static_cast<int>(given));
  EXPECT_TRUE(eventually("a quota", [&] { return has_quota("x", backstop(200)); }));
  EXPECT_TRUE(joins("x"));
  EXPECT_EQ(node->resize(id, 100)["status"], 200);
  EXPECT_TRUE(eventually("a lower quota", [&] { return has_quota("x", backstop(100)); }));
  node->restart();
  EXPECT_EQ(node->wait(id, "ready")["device"], "cpu1");
  EXPECT_EQ(node->resize(id, 300)["status"], 200);
  EXPECT_TRUE(eventually("the kubelet's quota", [&] { return has_quota("x", given); }));
  EXPECT_EQ(node->remove(id)["status"], 202);
  EXPECT_EQ(node->get("/v1/instances/" + id)["error"], "released");
  EXPECT_TRUE(
      eventually("no quota of ours", [&] { return kubelet->quota("x", Kubelet::held("x")) == 0; }));
  EXPECT_TRUE(has_quota("x", given));
  EXPECT_EQ(kill(kubelet->pid("x"), 0), 0);
}

// One-sided, as in enforcement_test.cc: noise lowers a use alone.
TEST_F(NodePods, TwoOnOneDeviceKeepTheirShares) {
  ready("a", 200);
  ready("b", 600);
  std::vector<std::jthread> work;
  for (const std::string id : {"a", "b"}) work.emplace_back([this, id] { ask(id, "/?ms=100000"); });
  for (const std::string id : {"a", "b"})
    EXPECT_TRUE(eventually("work of " + id, [&] { return used_share(id, Millis(50)) > 0; }));
  const double a = used_share("a", Seconds(3)), b = used_share("b", Seconds(3));
  EXPECT_GT(a, 0);
  EXPECT_LE(a, 0.30);
  EXPECT_GT(b, 0);
  EXPECT_LE(b, 0.75);
  std::printf("shares %.3f and %.3f\n", a, b);
  kubelet->end("a");  // breaks off their work
  kubelet->end("b");
}

}  // namespace
}  // namespace sluice
