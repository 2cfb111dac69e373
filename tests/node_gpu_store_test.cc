// A node daemon's model store on an emulated GPU: programs of one function share a model by name,
// and no other function gets it. Also what is left when the store or the daemon is killed.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <future>

#include "tests/support/eventually.h"
#include "tests/support/led_program.h"
#include "tests/support/node_with_gpus.h"
#include "tests/support/tensors_on_device.h"
#include "wire/model_store.h"

namespace sluice {
namespace {

constexpr Bytes kMib = Bytes{1} << 20;
constexpr uint64_t kOnDevice = 6 * kMib;  // of a tensor of 5 MiB

const std::string kOk = "0";
const std::string kNotFound = std::to_string(SLUICE_NOT_FOUND);
const std::string kUnavailable = std::to_string(SLUICE_UNAVAILABLE);

class GpuStore : public NodeWithGpus {
 protected:
  GpuStore() : NodeWithGpus(with_driver("devices=2 memory_mib=4096"), {"--gpu-store", "64MiB"}) {}
  ~GpuStore() override { unsetenv("LD_LIBRARY_PATH"); }

  // The store opens the driver wherever the loader finds it.
  static const char* with_driver(const char* gpus) {
    setenv("LD_LIBRARY_PATH", SLUICE_EMULATED_DRIVER_FOLDER, 1);
    return gpus;
  }

  // A program under a slice of the GPU, connected to the GPU's store; without a function: one
  // without a slice.
  class Program {
   public:
    Program(GpuStore& test, const std::string& function, const std::string& on = "cuda0")
        : process_({SLUICE_MODEL_SHARER},
                   {{"LD_PRELOAD", SLUICE_CUDA_HOOK},
                    {"ASAN_OPTIONS", "verify_asan_link_order=0"},  // the hook comes first
                    {"SLUICE_PERMIT_SOCKET", test.node_->data + "/run/permit.sock"}}) {
      socket_ = test.node_->data + "/run/store/cuda0.sock";
      if (!function.empty()) {
        const json taken = test.node_->call(verb::post, "/v1/processes",
                                            {{"id", "p" + std::to_string(process_.pid())},
                                             {"pid", process_.pid()},
                                             {"function", function},
                                             {"device", on},
                                             {"slice", Node::slice(200)}});
        EXPECT_EQ(taken["status"], 200) << taken;
        EXPECT_EQ(taken["environment"]["SLUICE_MODEL_STORE"],
                  test.node_->data + "/run/store/" + on + ".sock");
      }
      EXPECT_EQ(ask("connect " + socket_), kOk);
    }
    std::string ask(const std::string& line) {
      std::string answer = process_.ask(line);
      if (!answer.empty()) answer.pop_back();
      return answer;
    }
    void reconnect() { EXPECT_EQ(ask("connect " + socket_).substr(0, 1), kOk); }

   private:
    LedProgram process_;
    std::string socket_;
  };

  int on_device() { return tensors_on_device(*machine_, kOnDevice); }
  // Returns the process of cuda0's last started store; 0 if none.
  pid_t store() {
    const std::string log = node_->log();
    const std::string says =
        "model store of " + device("cuda0")["uuid"].get<std::string>() + ": process ";
    const size_t at = log.rfind(says);
    return at == log.npos ? 0 : std::stoi(log.substr(at + says.size()));
  }
};

TEST_F(GpuStore, ProgramsOfOneFunctionShareAModelAndNoOtherFunctionGetsIt) {
  EXPECT_EQ(device("cuda0")["memory"], (4096 - 64) * kMib) << "what slices can have";
  {
    Program first(*this, "vision/vit"), second(*this, "vision/vit"), other(*this, "vision/resnet");
    EXPECT_EQ(first.ask("store w a"), kOk + " aa");
    EXPECT_EQ(second.ask("get w"), kOk + " aa");
    EXPECT_EQ(second.ask("store w b"), kOk + " aa");
    EXPECT_EQ(other.ask("get w"), kNotFound);
    EXPECT_EQ(on_device(), 1);
    EXPECT_EQ(other.ask("store w c"), kOk + " cc");
    EXPECT_EQ(second.ask("read"), kOk + " aa");
    EXPECT_EQ(on_device(), 2);
  }
  EXPECT_TRUE(eventually("the device to be free", [&] { return on_device() == 0; }));
}

TEST_F(GpuStore, WhoHasNoSliceOfTheGpuIsNotServed) {
  Program inside(*this, "f"), nobody(*this, ""), elsewhere(*this, "f", "cuda1");
  EXPECT_EQ(inside.ask("store w a"), kOk + " aa");
  EXPECT_EQ(nobody.ask("get w"), kUnavailable);
  EXPECT_EQ(elsewhere.ask("get w"), kUnavailable);
  EXPECT_THAT(node_->log(), testing::HasSubstr("has no slice of it"));
}

Fd come_to(const std::string& path) {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un at{.sun_family = AF_UNIX};
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0) << path;
  EXPECT_EQ(send(socket.get(), "?", 1, MSG_NOSIGNAL), 1);
  return socket;
}
Nanos cpu_time_of(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  EXPECT_EQ(clock_getcpuclockid(pid, &clock), 0);
  EXPECT_EQ(clock_gettime(clock, &used), 0);
  return Seconds(used.tv_sec) + Nanos(used.tv_nsec);
}

TEST_F(GpuStore, WhoComesWhileThereAreNoDescriptorsWaitsAndIsServedLater) {
  Program inside(*this, "f");
  EXPECT_EQ(inside.ask("store w a"), kOk + " aa");
  rlimit limit{};
  ASSERT_EQ(prlimit(node_->pid(), RLIMIT_NOFILE, nullptr, &limit), 0);
  const rlimit none{.rlim_cur = 3, .rlim_max = limit.rlim_max};  // and 0, 1, 2 are taken
  ASSERT_EQ(prlimit(node_->pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  const Fd store = come_to(node_->data + "/run/store/cuda0.sock"),
           permit = come_to(node_->data + "/run/permit.sock");
  auto http = std::async(std::launch::async, [&] { return node_->get("/v1/state"); });
  const std::string says = "new clients wait";
  EXPECT_TRUE(
      eventually("it to say so", [&] { return node_->log().find(says) != std::string::npos; }));
  EXPECT_EQ(inside.ask("get w"), kOk + " aa") << "whoever is there is served";

  const Nanos before = cpu_time_of(node_->pid());
  pollfd answers[] = {{store.get(), POLLIN, 0}, {permit.get(), POLLIN, 0}};
  EXPECT_EQ(poll(answers, 2, 1000), 0);
  EXPECT_LT(cpu_time_of(node_->pid()) - before, Millis(500)) << "it turns round for them";

  ASSERT_EQ(prlimit(node_->pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
  EXPECT_EQ(http.get()["status"], 200);
  for (pollfd& answer : answers) EXPECT_EQ(poll(&answer, 1, 60'000), 1);
  EXPECT_EQ(node_->log().find(says), node_->log().rfind(says)) << "once";
}

TEST_F(GpuStore, OneThatIsKilledIsStartedAgainAndWhatIsSharedStays) {
  Program first(*this, "f"), second(*this, "f");
  EXPECT_EQ(first.ask("store w a"), kOk + " aa");
  const pid_t killed = store();
  ASSERT_GT(killed, 0);
  kill(killed, SIGKILL);
  ASSERT_TRUE(eventually("another store", [&] { return store() != killed; }));
  EXPECT_EQ(first.ask("read"), kOk + " aa");
  second.reconnect();
  EXPECT_EQ(second.ask("get w"), kNotFound) << "the new store knows nothing of it";
  EXPECT_EQ(second.ask("store w b"), kOk + " bb");
}

TEST_F(GpuStore, ItOutlivesTheNodeDaemonUntilItsLastUserHasEnded) {
  std::optional<Program> first(std::in_place, *this, "f");
  EXPECT_EQ(first->ask("store w a"), kOk + " aa");
  const pid_t before = store();
  const Fd old = pidfd_of(before);
  node_->restart();
  ASSERT_TRUE(eventually("another store", [&] { return store() != before; }));
  Program second(*this, "f");
  EXPECT_EQ(first->ask("get w"), kOk + " aa");
  EXPECT_EQ(second.ask("get w"), kNotFound);
  first.reset();
  EXPECT_TRUE(ends_within(old, Seconds(60)));
  EXPECT_EQ(on_device(), 0);
}

}  // namespace
}  // namespace sluice
