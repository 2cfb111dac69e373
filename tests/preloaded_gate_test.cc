// An unmodified PyTorch program under the preloaded gate: a real arbiter, permit.sock, and the
// kernel's count of its use. One-sided: noise makes a program use less, never more.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <functional>
#include <future>
#include <string>

#include "enforce/arbiter_host.h"
#include "enforce/meter_cpu.h"
#include "enforce/permit_server.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// Prints a line when it is about to begin, then one per step. Backward and optimizer included.
constexpr char kTraining[] = R"(
import sys, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(64, 256), torch.randint(0, 10, (64,))
print("begin", flush=True)
while True:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
)";

struct Program {
  pid_t pid = 0;
  Fd output;

  // Runs it with the gate preloaded, stdout and stderr in one.
  Program(const char* python, const std::string& permit_socket) {
    int fds[2];
    SLUICE_CHECK(::pipe2(fds, O_CLOEXEC) == 0, "pipe");
    output = Fd(fds[0]);
    const Fd theirs(fds[1]);
    pid = ::fork();
    if (pid != 0) return;
    ::dup2(theirs.get(), 1);
    ::dup2(theirs.get(), 2);
    ::setenv("LD_PRELOAD", SLUICE_GATE_LIBRARY, 1);
    ::setenv("OMP_NUM_THREADS", "1", 1);
    if (permit_socket.empty())
      ::unsetenv("SLUICE_PERMIT_SOCKET");
    else
      ::setenv("SLUICE_PERMIT_SOCKET", permit_socket.c_str(), 1);
    ::execl("/usr/bin/python3", "python3", "-c", python, nullptr);
    ::_exit(127);
  }
  ~Program() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }

  // Returns its output until `text` came, it ended, or a minute passed.
  std::string read_until(const std::string& text) const {
    std::string all;
    pollfd p{output.get(), POLLIN, 0};
    while (all.find(text) == std::string::npos && ::poll(&p, 1, 60'000) == 1) {
      char buffer[4096];
      const ssize_t n = ::read(output.get(), buffer, sizeof buffer);
      if (n <= 0) break;
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }

  Nanos used() const {
    clockid_t id;
    timespec t{};
    SLUICE_CHECK(::clock_getcpuclockid(pid, &id) == 0 && ::clock_gettime(id, &t) == 0, "clock");
    return Seconds(t.tv_sec) + Nanos(t.tv_nsec);
  }
};

class PreloadedGateTest : public testing::Test {
 protected:
  PreloadedGateTest() : host_(clock_, {}) {
    const policy::ArbiterConfig config;
    device_ = host_.add_device(*policy::make_arbiter("planned", config), config, 1000);
  }

  // Grants this share of a core to any process that asks at the socket.
  void serve(
      int permille, std::function<void()> before_answer = [] {}) {
    const policy::ShareClient client{
        .id = 1, .sm = kWhole, .quota = {{permille}, {permille}}, .position = {}};
    ASSERT_TRUE(host_
                    .admit(device_, client,
                           std::make_unique<node::CpuMeter>(
                               std::make_unique<node::ProcessCounter>(), 1000, clock_.now()))
                    .ok());
    auto server = node::PermitServer::start(
        {.path = path_}, clock_,
        [this, before_answer](const node::Peer&, uint32_t) -> Result<node::Placement> {
          before_answer();
          return node::Placement{&host_, {device_, 1}};
        });
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
  }

  SteadyClock clock_;
  node::ArbiterHost host_;
  node::DeviceNumber device_ = 0;
  const std::string path_ = testing::TempDir() + "permit" + std::to_string(getpid()) + ".sock";
  std::unique_ptr<node::PermitServer> server_;
};

TEST_F(PreloadedGateTest, ABusyTrainingScriptKeepsToItsQuota) {
  serve(200);
  const Program program(kTraining, path_);
  ASSERT_THAT(program.read_until("begin"), HasSubstr("begin"));
  // Use before the gate attached (the import) is outside of this test.
  const Time start = clock_.now();
  const Nanos used_before = program.used();
  ::poll(nullptr, 0, 3000);
  const double share = seconds(program.used() - used_before) / seconds(clock_.now() - start);
  EXPECT_LE(share, 0.30);
  EXPECT_GE(share, 0.02) << "it did not run at all";
  EXPECT_EQ(host_.state({device_, 1})->processes, 1) << "the gate did not attach";
}

// `planned`, which also writes down the iterations that it is told of.
class Listening : public policy::Arbiter {
 public:
  explicit Listening(const policy::ArbiterConfig& config)
      : under_(*policy::make_arbiter("planned", config)) {}
  Result<void> admit(const policy::ShareClient& c, Time now) override {
    return under_->admit(c, now);
  }
  void remove(policy::ClientId c, Time now) override { under_->remove(c, now); }
  void want(policy::ClientId c, bool wanting, Time now) override { under_->want(c, wanting, now); }
  void charge(policy::ClientId c, Nanos busy, Time until, Time now) override {
    under_->charge(c, busy, until, now);
  }
  void drained(policy::ClientId c, Time now) override { under_->drained(c, now); }
  void iteration(policy::ClientId, Nanos cycle, uint32_t kind, Time) override {
    if (kind == 7) cycle_ns = cycle.count();
  }
  policy::Permits step(Time now) override { return under_->step(now); }
  std::string_view name() const override { return under_->name(); }

  static inline std::atomic<int64_t> cycle_ns = 0;

 private:
  std::unique_ptr<policy::Arbiter> under_;
};

// As python/sluice_serve.py does.
TEST_F(PreloadedGateTest, AProgramMarksItsIterations) {
  const policy::ArbiterConfig config;
  device_ = host_.add_device(std::make_unique<Listening>(config), config, 1000);
  serve(1000);
  const Program program(R"(
import ctypes, time, torch
here = ctypes.CDLL(None)
x = torch.ones(2) + 1
while True:
    here.sluice_iteration_begin()
    here.sluice_iteration_begin()
    time.sleep(0.05)
    x = x * 1
    here.sluice_iteration_end(7)
    here.sluice_iteration_end(8)
    print("marked", flush=True)
)",
                        path_);
  while (Listening::cycle_ns == 0) ASSERT_THAT(program.read_until("marked"), HasSubstr("marked"));
  EXPECT_GE(Nanos(Listening::cycle_ns.load()), Millis(50));
}

TEST_F(PreloadedGateTest, SaysSoWhereNobodyAnswers) {
  constexpr char kOnce[] = "import torch; torch.ones(2) + 1; print('end', flush=True)";
  EXPECT_THAT(Program(kOnce, path_).read_until("end"),
              HasSubstr("sluice-gate: no pages from " + path_));
  EXPECT_THAT(Program(kOnce, "").read_until("end"), HasSubstr("SLUICE_PERMIT_SOCKET is not set"));
}

// A fork of a template has its variables long after libtorch was loaded.
TEST_F(PreloadedGateTest, AVariableThatComesAfterThePreloadIsFound) {
  serve(200);
  const std::string late =
      "import os, torch; torch.ones(2) + 1; print('begin', flush=True)\n"
      "os.environ['SLUICE_PERMIT_SOCKET'] = '" +
      path_ + "'\nx = torch.ones(2)\nwhile True: x = x * 1";
  const Program program(late.c_str(), "");
  EXPECT_THAT(program.read_until("begin"), HasSubstr("SLUICE_PERMIT_SOCKET is not set"));
  for (int i = 0; i < 30000 && host_.state({device_, 1})->processes == 0; ++i)
    ::poll(nullptr, 0, 2);
  EXPECT_EQ(host_.state({device_, 1})->processes, 1);
}

// As beside a resize on a busy machine: the kernel delays the daemon's look-up of the caller.
TEST_F(PreloadedGateTest, ALateAnswerIsNoRefusal) {
  std::promise<void> begun;
  serve(200, [answer = begun.get_future().share()] { answer.wait_for(Millis(800)); });
  const Program program(kTraining, path_);
  ASSERT_EQ(program.read_until("\n"), "begin\n") << "the first operators do not wait for it";
  begun.set_value();
  for (int i = 0; i < 5000 && host_.state({device_, 1})->processes == 0; ++i) ::poll(nullptr, 0, 2);
  ASSERT_EQ(host_.state({device_, 1})->processes, 1);
  ::kill(program.pid, SIGTERM);
  EXPECT_EQ(program.read_until("sluice-gate"), "");
}

TEST_F(PreloadedGateTest, AProgramWithoutTorchIsLeftAlone) {
  constexpr char kPlain[] = "import ctypes, json, sqlite3; print('end', flush=True)";
  EXPECT_EQ(Program(kPlain, "").read_until("end\n"), "end\n");
}

}  // namespace
}  // namespace sluice
