#include "node/takeover.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice::node {
namespace {

// ---- settle() ----------------------------------------------------------------------------------

struct Settle : testing::Test {
  Settle() {
    child = fork();
    if (child == 0)
      for (;;) pause();
  }
  ~Settle() override {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  // Returns the record of the child's process, settled by a daemon of this boot, or of the next.
  InstanceRecord settled(InstanceState state, bool same_boot = true) {
    std::vector<InstanceRecord> records{
        {.instance = {.id = "a", .state = state, .parts = {{"cpu0", {}, {}}}},
         .process = *identity_of(child)}};
    died = settle(records, same_boot);
    return records[0];
  }
  pid_t child;
  std::vector<InstanceRecord> died;
};

TEST_F(Settle, AnInstanceThatRunsIsLeftAlone) {
  for (const InstanceState state : {InstanceState::kReady, InstanceState::kDraining}) {
    EXPECT_EQ(settled(state).instance.state, state);
    EXPECT_TRUE(died.empty());
  }
}

TEST_F(Settle, AnInstanceThatWasStartingIsKilled) {
  const InstanceRecord r = settled(InstanceState::kStarting);
  EXPECT_EQ(r.instance.state, InstanceState::kGone);
  EXPECT_EQ(r.error, "the node daemon was restarted while it started");
  EXPECT_TRUE(r.node_fault);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(died.size(), 1u);
}

// Its kubelet has started it, and the next daemon finds it again.
TEST_F(Settle, APodThatWasStartingStaysAndIsBornAgain) {
  std::vector<InstanceRecord> records{
      {.instance = {.id = "a", .state = InstanceState::kStarting}, .process = *identity_of(child)}};
  EXPECT_TRUE(settle(records, true, Born::kByTheKubelet).empty());
  EXPECT_EQ(records[0].instance.state, InstanceState::kStarting);
  EXPECT_EQ(records[0].process.pid, 0);
  EXPECT_EQ(kill(child, 0), 0);
  EXPECT_EQ(settle(records, false, Born::kByTheKubelet).size(), 1u);
  EXPECT_EQ(records[0].error, "the machine was restarted");
}

TEST_F(Settle, NothingOfAnEarlierBootRunsAndNothingIsSignalled) {
  const InstanceRecord r = settled(InstanceState::kDraining, false);
  EXPECT_EQ(r.error, "the machine was restarted");
  EXPECT_TRUE(r.stopped);
  EXPECT_EQ(kill(child, 0), 0);
}

TEST_F(Settle, AnInstanceThatHasLostTheProcessOfAPartIsKilled) {
  const ProcessIdentity lives = *identity_of(child), ended{child, 1};
  const Instance pair{
      .id = "a", .state = InstanceState::kReady, .parts = {{"cpu0", {}, {}}, {"cpu1", {}, {}}}};
  std::vector<InstanceRecord> records{{.instance = pair, .process = ended, .siblings = {lives}}};
  EXPECT_EQ(settle(records, true).size(), 1u);
  EXPECT_EQ(records[0].error, "died while no node daemon ran");
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST_F(Settle, AProcessThatEndedIsGone) {
  std::vector<InstanceRecord> records{
      {.instance = {.id = "a", .state = InstanceState::kReady}, .process = {child, 1}}};
  EXPECT_EQ(settle(records, true).size(), 1u);  // its pid is another process's
  EXPECT_EQ(records[0].error, "died while no node daemon ran");
  EXPECT_FALSE(records[0].stopped);
}

// ---- devices_now() -----------------------------------------------------------------------------

std::vector<LocalDevice> cpus(int count) {
  std::vector<LocalDevice> devices;
  for (int i = 0; i < count; ++i)
    devices.push_back({{.id = "cpu" + std::to_string(i), .millicores = 1000}, {i}});
  return devices;
}

TEST(DevicesNow, CpuDevicesChangeOnlyWhileNothingHoldsAPartOfOne) {
  NodeState before{.devices = cpus(4)};
  const CpuSplit split{.devices = cpus(2)};
  EXPECT_EQ(devices_now(before, true, split, {}, "here", {}), cpus(2));
  before.instances.push_back(
      {.instance = {.id = "a", .state = InstanceState::kReady, .parts = {{"cpu3", {}, {}}}}});
  EXPECT_EQ(devices_now(before, true, split, {}, "here", {}), cpus(4));
  before.instances[0].instance.state = InstanceState::kGone;
  EXPECT_EQ(devices_now(before, true, split, {}, "here", {}), cpus(2));
}

// ---- set_arbiters() ----------------------------------------------------------------------------

// Returns what the user has fixed: "cpu0: deadline, cuda0: deadline".
std::string fixed_on(std::vector<LocalDevice> devices, const DaemonSettings& settings) {
  if (const auto set = set_arbiters(devices, settings); !set.ok()) return set.error().message;
  std::string text;
  for (const auto& [d, cores] : devices)
    text += (text.empty() ? "" : ", ") + d.id + ": " + d.arbiter;
  return text;
}

TEST(SetArbiters, AFixedOneHoldsOnEachDeviceThatCanRunIt) {
  std::vector<LocalDevice> devices = cpus(1);
  devices.push_back({{.id = "cuda0", .kind = DeviceKind::kCuda, .arbiter = "window"}, {}});
  EXPECT_EQ(fixed_on(devices, {}), "cpu0: , cuda0: ");
  EXPECT_EQ(fixed_on(devices, {.arbiter = "deadline"}), "cpu0: deadline, cuda0: deadline");
  EXPECT_EQ(fixed_on(devices, {.arbiter = "planned"}), "cpu0: planned, cuda0: planned");
  EXPECT_EQ(fixed_on(devices, {.arbiter = "shares"}), "cpu0: , cuda0: shares");
  EXPECT_EQ(fixed_on(cpus(2), {.arbiter = "shares"}),
            "arbiter: 'shares' is none of planned, deadline, window, multi_token, introspective, "
            "share_fixed_limit, share_fixed_request, tgs, which a CPU can run");
}

TEST(SetArbiters, ADeviceHasTheWindowOfTheOneThatItWillRun) {
  std::vector<LocalDevice> devices = cpus(1);
  ASSERT_TRUE(set_arbiters(devices, {.default_arbiter = "introspective"}).ok());
  EXPECT_EQ(devices[0].device.window, Millis(5));
  ASSERT_TRUE(
      set_arbiters(devices, {.arbiter = "planned", .default_arbiter = "introspective"}).ok());
  EXPECT_EQ(devices[0].device.window, Millis(20));
}

}  // namespace
}  // namespace sluice::node
