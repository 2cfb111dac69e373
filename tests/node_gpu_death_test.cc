// The death matrix of the node daemon, on GPUs: it is killed within each step of lending memory, of
// writing budgets, and of handling a failing device. Unmodified programs go on meanwhile.
//   - A program works on without a daemon, and is held to its limit by the next.
//   - No more of the device is ever in use than the slice has: what was lent is recorded.
//   - An ended program's memory is free.
//   - A program on a failing device is ended, and the record says why.
#include <gmock/gmock.h>

#include <thread>

#include "tests/emulator/health.h"
#include "tests/support/each_step.h"
#include "tests/support/eventually.h"
#include "tests/support/node_with_led_programs.h"

namespace sluice {
namespace {

// Before the node is started.
struct PlanOfTheDaemon {
  PlanOfTheDaemon() { setenv(kStepsVariable, plan_.environment(Role::kDaemon).c_str(), 1); }
  ~PlanOfTheDaemon() { unsetenv(kStepsVariable); }
  Plan plan_;
};

class NodeGpuDeath : protected PlanOfTheDaemon, public NodeWithLedPrograms {
 protected:
  NodeGpuDeath() : NodeWithLedPrograms("node_main_with_steps") {}

  // The daemon starts, dies at the step, and another one starts; `life` leads it to the step.
  template <class Life>
  void live_through(const std::string& label, Life life) {
    node_->stop(SIGKILL);
    plan_.arm(Role::kDaemon, label, SIGKILL);
    node_->launch();
    const pid_t doomed = node_->pid();
    std::thread programs([&] {
      life();
      if (!plan_.wait_for_hit(Seconds(60))) kill(doomed, SIGTERM);
    });
    node_->wait_for_end();
    node_->launch();
    programs.join();
    ASSERT_EQ(plan_.hit(), doomed) << "it did not come to this step";
  }

  // Allocates and frees in a slice that it shares with another program, as long as the step needs.
  void take_and_free(int program) {
    Bytes which = 0;
    for (int round = 0; round < 3; ++round) {
      if (ask(program, "plain 64", &which) == 0) ask(program, "free " + std::to_string(which));
      EXPECT_LE(on_device(), kSlice + kPrograms * kHeadroom);
    }
  }
  testing::AssertionResult works_on(Nanos before) {
    return eventually("work on the device", [&] { return busy(1) > before + Millis(10); });
  }
  // Measured over a quarter of a second.
  double share_of(unsigned device) {
    const SteadyClock clock;
    const Time start = clock.now();
    const Nanos before = busy(device);
    let_programs_work(Millis(250));
    return double((busy(device) - before).count()) / double((clock.now() - start).count());
  }
  // Allocates what it can; then frees it.
  void fill(int program) {
    std::vector<Bytes> taken;
    for (Bytes which = 0; ask(program, "plain 16", &which) == 0; taken.push_back(which))
      ASSERT_LE(on_device(), kSlice + kPrograms * kHeadroom);
    for (const Bytes which : taken) EXPECT_EQ(ask(program, "free " + std::to_string(which)), 0);
  }
};

TEST_F(NodeGpuDeath, KilledWithinAnyStepOfLendingMemory) {
  start();
  for (int i = 0; i < kPrograms; ++i) EXPECT_EQ(ask(i, "plain 16"), 0);
  const Bytes left = kSlice - kPrograms * (kContext + 16);
  ASSERT_TRUE(eventually("contexts to be charged",
                         [&] { return available(0) <= left + kPrograms * kHeadroom; }));
  const std::string script = folder_ + "/short";
  std::ofstream(script) << "echo plain 16 | " SLUICE_CUDA_MEMORY " >" << folder_ << "/said\n"
                        << "exec tail -f /dev/null";
  int born = 0;
  at_each(plan_, labels_in({"enforce/memory_broker.cc"}), [&](const std::string& label) {
    const std::string id = "short" + std::to_string(++born);
    // A program joins, holds memory and ends, on the other device, where its slice stays; two go on
    // meanwhile.
    pid_t rest = 0;
    live_through(label, [&] {
      rest = start_program("cuda0", {"/bin/sh", script.c_str()},
                           Node::slice(100, 0, (kContext + 64) * kMib), id.c_str());
      take_and_free(0);
    });
    if (HasFailure()) return;
    fill(1);
    kill(rest, SIGKILL);
    node_->wait(id, "gone");
  });
  if (HasFailure()) FAIL() << node_->log();
}

TEST_F(NodeGpuDeath, KilledWhileItWritesABudget) {
  start_program("cuda1", {SLUICE_CUDA_GREEDY, "kernel"}, Node::slice(200));
  at_each(plan_, {"decide: allowed"}, [&](const std::string& label) {
    const Nanos before = busy(1);
    live_through(label, [&] { EXPECT_TRUE(works_on(before)); });
    EXPECT_TRUE(works_on(busy(1)));
    EXPECT_TRUE(eventually("it to be held to its limit again", [&] { return share_of(1) < 0.3; }));
  });
  if (HasFailure()) FAIL() << node_->log();
}

TEST_F(NodeGpuDeath, KilledWithinAnyStepOfEndingProgramsOnADeviceThatFails) {
  at_each(plan_, labels_in({"node/device_faults.cc"}), [&](const std::string& label) {
    const pid_t program = start_program("cuda1", {SLUICE_CUDA_GREEDY, "kernel"}, Node::slice(200));
    ASSERT_TRUE(eventually("work", [&] { return busy(1) >= Millis(1); }));
    live_through(label, [&] {
      ASSERT_EQ(device("cuda1")["fault"], "");  // the daemon listens from now on
      const emulator::Machine::Lock lock(*machine_);
      raise_xid(*lock, 1, 79);
    });
    if (HasFailure()) return;
    EXPECT_EQ(ended_by(program), SIGTERM);
    EXPECT_EQ(node_->wait("program", "gone")["error"], "cuda1 failed: Xid 79");
    EXPECT_EQ(device("cuda1")["fault"], "Xid 79");
    (void)node_->call(verb::delete_, "/v1/processes/program");  // its name is free
    EXPECT_EQ(node_->call(verb::patch, "/v1/devices/cuda1", {{"drained", false}})["status"], 200);
  });
  if (HasFailure()) FAIL() << node_->log();
}

}  // namespace
}  // namespace sluice
