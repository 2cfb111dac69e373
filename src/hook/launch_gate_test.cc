// What starts work waits for its permit, on the device where it goes; what does not passes, and so
// does a launch into a stream that captures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/hooked_process.h"
#include "tests/support/permit_daemon.h"
#include "wire/permit_socket.h"

namespace sluice::hook {
namespace {

unsigned long word(const void* pointer) {
  return reinterpret_cast<unsigned long>(pointer);
}

// A first launch does not wait for ever for its pages; the next ones find them.
template <class Condition>
bool launch_until(const Hooked& cuda, std::string_view what, Condition holds) {
  return bool(eventually(what, [&] {
    cuda.call("cuLaunchKernel");
    return holds();
  }));
}

// A program whose launches are permitted by the test.
struct Gated {
  // The driver's device count is looked at once, at the first launch.
  explicit Gated(int devices = 1, int current = 0) : daemon(socket_path()) {
    setenv("SLUICE_PERMIT_SOCKET", socket_path().c_str(), 1);
    cuda.state->devices = devices;
    cuda.state->current = current;
    daemon.grant();
    launch_until(cuda, "pages", [&] { return daemon.wanted(); });
  }
  static std::string socket_path() {
    return testing::TempDir() + "hook" + std::to_string(getpid()) + ".sock";
  }

  unsigned last() const { return cuda.state->last.entry; }

  // Calls while there is no permit; whether that waits until there is one.
  bool waits(Entry entry, const Words& words) {
    const auto number = static_cast<unsigned>(entry);
    bool held = false;
    do {
      daemon.revoke();
      cuda.call("cuInit");
      std::atomic<bool> done{false};
      std::thread caller([&] {
        cuda.call(kNames[number], words);
        done = true;
      });
      const bool seen = bool(eventually("a caller", [&] { return done || daemon.waited_for(); }));
      held = seen && !done && last() != number;
      daemon.grant();
      caller.join();
    } while (!held && daemon.heart_paused());
    return held && last() == number;
  }
  bool launch_waits(CUstream stream) {
    return waits(Entry::cuLaunchKernel, {0, 1, 1, 1, 1, 1, 1, 0, word(stream)});
  }
  // Returns only if it does not wait.
  bool launch_passes(CUstream stream) {
    daemon.revoke();
    cuda.call("cuInit");
    cuda.call("cuLaunchKernel", {0, 1, 1, 1, 1, 1, 1, 0, word(stream)});
    return last() == static_cast<unsigned>(Entry::cuLaunchKernel);
  }

  const Hooked cuda;
  PermitDaemon daemon;
};

const CUstream kStream = reinterpret_cast<CUstream>(0x1000);
const CUstream kOther = reinterpret_cast<CUstream>(0x2000);

TEST(LaunchGateTest, EveryLaunchWaitsForThePermit) {
  EXPECT_EQ(in_process([]() -> std::string {
              Gated program;
              const CUlaunchConfig config{};
              const std::pair<Entry, Words> launches[] = {
                  {Entry::cuLaunchKernel, {}},
                  {Entry::cuLaunchKernel_ptsz, {}},
                  {Entry::cuLaunchKernelEx, {word(&config)}},
                  {Entry::cuLaunchKernelEx_ptsz, {word(&config)}},
                  {Entry::cuLaunchCooperativeKernel, {}},
                  {Entry::cuLaunchCooperativeKernel_ptsz, {}},
                  {Entry::cuGraphLaunch, {}},
                  {Entry::cuGraphLaunch_ptsz, {}},
              };
              for (const auto& [entry, words] : launches)
                if (!program.waits(entry, words)) return kNames[static_cast<unsigned>(entry)];
              return "";
            }),
            "");
}

TEST(LaunchGateTest, WhatStartsNoWorkPasses) {
  EXPECT_EQ(in_process([]() -> std::string {
              Gated program;
              if (!program.launch_waits(nullptr)) return "the gate is open";
              program.daemon.revoke();
              for (const char* name : {"cuStreamSynchronize", "cuMemAlloc_v2", "cuGraphUpload"})
                program.cuda.call(name);
              return "";
            }),
            "");
}

TEST(LaunchGateTest, ALaunchThatIsCapturedPassesAndTheGraphWaits) {
  EXPECT_EQ(in_process([]() -> std::string {
              Gated program;
              if (!program.launch_waits(kStream)) return "before a capture";
              program.cuda.call("cuStreamBeginCapture_v2", {word(kStream)});
              if (!program.launch_passes(kStream)) return "while the stream captures";
              if (!program.launch_waits(kOther)) return "another stream, meanwhile";
              program.cuda.call("cuStreamEndCapture", {word(kOther)});  // is not one that captures
              if (!program.launch_passes(kStream)) return "after the end of no capture";
              program.cuda.call("cuStreamEndCapture", {word(kStream)});
              if (!program.launch_waits(kStream)) return "after the capture";
              return program.waits(Entry::cuGraphLaunch, {}) ? "" : "the graph";
            }),
            "");
}

TEST(LaunchGateTest, ALaunchGoesThroughTheGateOfItsContextsDevice) {
  EXPECT_EQ(
      in_process([]() -> std::string {
        Gated program(2, 1);
        if (program.daemon.hellos(1) == 0 || program.daemon.hellos(0) != 0) return "device 1";
        program.cuda.state->current = 0;
        if (!launch_until(program.cuda, "a HELLO", [&] { return program.daemon.hellos(0) != 0; }))
          return "device 0";
        for (const int device : {1, 0, 1}) {
          program.cuda.state->current = device;
          program.cuda.call("cuLaunchKernel");
          if (!program.launch_waits(nullptr)) return "after a change of devices";
        }
        return "";
      }),
      "");
}

// As fork() does it, and as programs do that go past libc's handlers.
pid_t fork_of_libc() {
  return fork();
}
pid_t raw_clone() {
  return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

TEST(LaunchGateTest, AChildHasPagesOfItsOwnHoweverItWasMade) {
  for (const auto make_child : {fork_of_libc, raw_clone})
    EXPECT_EQ(in_process([make_child]() -> std::string {
                Gated program;
                const int before = program.daemon.hellos(0);
                const pid_t child = make_child();
                if (child == 0)
                  for (;;) program.cuda.call("cuLaunchKernel");
                const bool said =
                    bool(eventually("a HELLO", [&] { return program.daemon.hellos(0) > before; }));
                kill(child, SIGKILL);
                waitpid(child, nullptr, 0);
                return said ? "" : "the child said no HELLO";
              }),
              "");
}

// As a container has it, to which nobody has told anything.
TEST(LaunchGateTest, WithoutAnEnvironmentTheSocketIsWhereItIsMounted) {
  const std::string none = "this test may not mount";
  const std::string said = in_process([&]() -> std::string {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, "") != 0 ||
        mount("none", "/run", "tmpfs", 0, nullptr) != 0)
      return none;
    std::filesystem::create_directories("/run/sluice/permit");
    PermitDaemon daemon(SLUICE_MOUNTED_PERMIT_SOCKET);
    const Hooked cuda;
    cuda.state->devices = 1;
    unsetenv("SLUICE_PERMIT_SOCKET");
    daemon.grant();
    const bool asked = bool(eventually("a caller", [&] {
      cuda.call("cuLaunchKernel");
      return daemon.wanted();
    }));
    return asked ? "" : "nobody asked there";
  });
  if (said == none) GTEST_SKIP() << none;
  EXPECT_EQ(said, "");
}

// As after an upgrade of the node, where a program has kept its hook; it goes on ungated, and is
// held as soon as there is a daemon again whose pages it understands.
TEST(LaunchGateTest, UnderADaemonOfALaterVersionProgramsGoOnUntilThereIsOneThatTheyUnderstand) {
  EXPECT_EQ(in_process([]() -> std::string {
              setenv("SLUICE_PERMIT_SOCKET", Gated::socket_path().c_str(), 1);
              const Hooked cuda;
              PermitDaemon daemon(Gated::socket_path());
              daemon.become(SLUICE_WIRE_VERSION + 1);
              cuda.state->devices = 1;
              if (!launch_until(cuda, "two HELLOs", [&] { return daemon.hellos(0) >= 2; }))
                return "it does not ask again";
              if (daemon.wanted()) return "it has pages that it cannot understand";
              daemon.become(SLUICE_WIRE_VERSION);
              daemon.grant();
              if (!launch_until(cuda, "pages", [&] { return daemon.wanted(); }))
                return "it has no pages";
              return "";
            }),
            "");
}

// As a program that was started with a newer hook than its node's daemon.
TEST(LaunchGateTest, WhomAnOlderDaemonRefusesGoesOnAndIsHeldByTheNext) {
  EXPECT_EQ(in_process([]() -> std::string {
              setenv("SLUICE_PERMIT_SOCKET", Gated::socket_path().c_str(), 1);
              const Hooked cuda;
              cuda.state->devices = 1;
              {
                PermitDaemon older(Gated::socket_path());
                older.refuse(SLUICE_REFUSED_VERSION);
                if (!launch_until(cuda, "two HELLOs", [&] { return older.hellos(0) >= 2; }))
                  return "it does not ask again";
                if (older.wanted()) return "it has pages";
              }
              PermitDaemon next(Gated::socket_path());
              std::atomic<bool> done{false};
              std::thread launcher([&] {
                while (!done) cuda.call("cuLaunchKernel");
              });
              const bool held = bool(eventually("a wait", [&] { return next.waited_for(); }));
              done = true;
              next.grant();
              launcher.join();
              return held ? "" : "it is not held";
            }),
            "");
}

TEST(LaunchGateTest, WithoutADaemonNothingIsHeld) {
  EXPECT_EQ(in_process([]() -> std::string {
              const Hooked cuda;
              unsetenv("SLUICE_PERMIT_SOCKET");
              for (int i = 0; i < 1000; ++i) cuda.call("cuLaunchKernel");
              return cuda.state->calls == 1000 ? "" : "not all launches arrived";
            }),
            "");
}

}  // namespace
}  // namespace sluice::hook
