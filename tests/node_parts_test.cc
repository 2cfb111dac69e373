// Instances of two parts, on two CPU devices, under a real daemon: their processes start, are held
// to their slices, change and end together, and outlive the daemon.
#include "tests/support/eventually.h"
#include "tests/support/program.h"

namespace sluice {
namespace {

json part_on(const std::string& device, int request) {
  return {{"device", device}, {"slice", Node::slice(request)}};
}

struct NodeParts : testing::Test {
  NodeParts() {
    std::filesystem::create_directory(folder());
    std::filesystem::permissions(folder(), std::filesystem::perms(0777));
  }
  std::string folder() const { return node.data + "/shared"; }
  static json parts(int first, int second) {
    return json::array({part_on("cpu0", first), part_on("cpu1", second)});
  }
  // The first part serves on its given port; the second one, which has no address of its own, on a
  // socket in `folder`. `before`: the first command of each part's shell.
  json start(int first, int second, const std::string& before = "") {
    const std::string place = "echo part $SLUICE_PART of $SLUICE_PARTS; : ${PORT:=" + folder() +
                              "/second.sock}; " + before;
    return node.call(verb::post, "/v1/instances",
                     {{"id", "pair"},
                      {"function", "default/f"},
                      {"parts", parts(first, second)},
                      {"program", program_of_node(node, true, "", place)}});
  }
  json ready(int first, int second) {
    const json started = start(first, second);
    EXPECT_EQ(started["status"], 202) << started;
    json pair = node.wait("pair", "ready");
    EXPECT_TRUE(eventually("the second part to listen",
                           [&] { return ask(pair, 1, "/?ms=1").value("gate", 0) == 1; }));
    return pair;
  }
  json resize(int first, int second) {
    return node.call(verb::patch, "/v1/instances/pair", {{"parts", parts(first, second)}});
  }
  json ask(const json& pair, int part, const std::string& target = "/") const {
    const std::string at =
        part == 0 ? pair["socket"].get<std::string>() : folder() + "/second.sock";
    wire::HttpClient client(*wire::parse_endpoint(at), Seconds(100));
    const auto answer = client.json(verb::post, target);
    return answer.ok() ? *answer : json{{"error", answer.error().message}};
  }
  static pid_t pid_of(const json& pair, int part) {
    return part == 0 ? pair["pid"].get<pid_t>() : pair["siblings"][0]["pid"].get<pid_t>();
  }
  Nanos used() { return Nanos(node.get("/v1/state")["instances"][0]["used_ns"].get<int64_t>()); }
  // Expects 50 ms of work at 10 % of the part's device to take at least half of the ideal time, and
  // the kernel's count of it to be in the instance's.
  void expect_held_to_a_tenth(const json& pair, int part) {
    const json device = node.get("/v1/state")["devices"][part];
    const double cores = device["millicores"].get<double>() / 1000;
    const SteadyClock clock;
    const Time begun = clock.now();
    const Nanos before = used();
    EXPECT_EQ(ask(pair, part, "/?ms=50").value("gate", 0), 1);
    EXPECT_GT(clock.now() - begun, Millis(25) / std::min(1.0, 0.1 * cores)) << "part " << part;
    EXPECT_GT(used() - before, Millis(25) / std::max(1.0, cores)) << "part " << part;
  }
  void expect_both_devices_free() {
    for (const std::string device : {"cpu0", "cpu1"}) node.ready("on-" + device, 1000, "", device);
  }
  Node node;
};

TEST_F(NodeParts, BothStartAreHeldToTheirSlicesAndChangeTogether) {
  const json pair = ready(100, 100);
  EXPECT_NE(pid_of(pair, 0), pid_of(pair, 1));
  for (const int part : {0, 1}) {
    EXPECT_EQ(ask(pair, part)["pid"], pid_of(pair, part));
    expect_held_to_a_tenth(pair, part);
  }
  std::ifstream file(node.data + "/logs/pair.log");
  const std::string log = (std::ostringstream() << file.rdbuf()).str();
  for (const std::string line : {"part 0 of 2\n", "part 1 of 2\n"})
    EXPECT_NE(log.find(line), log.npos) << log;

  const json resized = resize(600, 700);
  EXPECT_EQ(resized["status"], 200) << resized;
  EXPECT_EQ(resized["parts"][0]["slice"]["request"], 600);
  EXPECT_EQ(resized["parts"][1]["slice"]["request"], 700);
  node.ready("other", 300, "", "cpu1");
  const json refused = resize(500, 701);
  EXPECT_EQ(refused["status"], 429);
  EXPECT_TRUE(refused["error"].get<std::string>().starts_with("the part on cpu1: ")) << refused;
  EXPECT_EQ(node.get("/v1/instances/pair")["parts"], resized["parts"]) << "none has changed";
  EXPECT_EQ(resize(100, 100)["status"], 200);
  for (const int part : {0, 1}) expect_held_to_a_tenth(pair, part);
}

TEST_F(NodeParts, WhenTheProcessOfOneEndsTheOtherIsKilledAndBothDevicesAreFree) {
  for (const int part : {0, 1}) {
    const json pair = ready(500, 500);
    const Fd other = pidfd_of(pid_of(pair, 1 - part));
    kill(pid_of(pair, part), SIGKILL);
    const std::string error = node.wait("pair", "gone")["error"];
    EXPECT_TRUE(
        error.starts_with("the part on cpu" + std::to_string(part) + " ended: signal 9 (Killed)"))
        << error;
    EXPECT_TRUE(ends_within(other, Seconds(100)));
    node.remove("pair");  // its name is free
  }
  expect_both_devices_free();
}

TEST_F(NodeParts, ADrainReachesBoth) {
  const json pair = ready(500, 500);
  const Fd first = pidfd_of(pid_of(pair, 0)), second = pidfd_of(pid_of(pair, 1));
  node.remove("pair", 100'000);
  const json gone = node.wait("pair", "gone");
  EXPECT_EQ(gone["stopped"], true);
  EXPECT_TRUE(gone["error"].get<std::string>().ends_with("ended: exit code 0")) << gone;
  EXPECT_TRUE(ends_within(first, Seconds(100)) && ends_within(second, Seconds(100)));
  for (const int part : {0, 1})  // reaped
    EXPECT_TRUE(eventually("no corpse", [&] {
      return !std::filesystem::exists("/proc/" + std::to_string(pid_of(pair, part)));
    }));
  expect_both_devices_free();
}

TEST_F(NodeParts, AFailureOfOneAtItsStartEndsTheOther) {
  start(500, 500, "test $SLUICE_PART = 0 || exit 3; sleep 1000; ");
  const json gone = node.wait("pair", "gone");
  EXPECT_TRUE(gone["error"].get<std::string>().starts_with("the part on cpu1 ended: exit code 3"))
      << gone;
  expect_both_devices_free();
}

TEST_F(NodeParts, WithoutRoomForOneNothingStartsAndItsDeviceIsNamed) {
  node.ready("other", 600, "", "cpu1");
  const json refused = start(500, 500);
  EXPECT_EQ(refused["status"], 429);
  EXPECT_EQ(refused["error"],
            "the part on cpu1: cpu1 has no room for sm 100% × request 50% beside what it has "
            "promised");
  EXPECT_EQ(node.get("/v1/instances/pair")["status"], 404);
  EXPECT_FALSE(std::filesystem::exists(node.data + "/logs/pair.log")) << "no process was born";
  node.ready("on-cpu0", 1000);
}

TEST_F(NodeParts, TheModelServerHasOnePart) {
  const json refused = node.call(verb::post, "/v1/instances",
                                 {{"id", "pair"},
                                  {"function", "default/f"},
                                  {"parts", parts(500, 500)},
                                  {"model", {{"path", node.model("")}}}});
  EXPECT_EQ(refused["status"], 400);
  EXPECT_EQ(refused["error"],
            "parts: the model server computes on one device; several parts need a program");
}

TEST_F(NodeParts, BothOutliveTheDaemonAndStayUnderTheirSlices) {
  const json pair = ready(100, 100);
  node.restart();
  const json now = node.wait("pair", "ready");
  for (const char* field : {"pid", "siblings", "parts", "socket"})
    EXPECT_EQ(now[field], pair[field]) << field;
  for (const std::string device : {"cpu0", "cpu1"})
    EXPECT_EQ(node.start("more", 901, "", device)["status"], 429) << device;
  for (const int part : {0, 1}) {
    EXPECT_TRUE(eventually("the gate to find the new daemon",
                           [&] { return ask(now, part, "/?ms=1").value("gate", 0) == 1; }));
    expect_held_to_a_tenth(now, part);
  }
  const Fd first = pidfd_of(pid_of(now, 0));
  kill(pid_of(now, 1), SIGKILL);
  node.wait("pair", "gone");
  EXPECT_TRUE(ends_within(first, Seconds(100)));
}

TEST_F(NodeParts, WithOneThatEndedWhileNoDaemonRanTheOtherIsEnded) {
  const json pair = ready(500, 500);
  const Fd first = pidfd_of(pid_of(pair, 0)), second = pidfd_of(pid_of(pair, 1));
  node.stop(SIGKILL);
  kill(pid_of(pair, 1), SIGKILL);
  EXPECT_TRUE(ends_within(second, Seconds(100)));
  node.launch();
  EXPECT_EQ(node.wait("pair", "gone")["error"], "died while no node daemon ran");
  EXPECT_TRUE(ends_within(first, Seconds(100)));
  expect_both_devices_free();
}

}  // namespace
}  // namespace sluice
