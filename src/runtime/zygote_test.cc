// Zygote, template and instances as processes, with the test in the daemon's place.
#include "runtime/zygote.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "wire/http/http.h"
#include "wire/zygote.h"

namespace sluice::runtime {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Pair {
  Fd ours, theirs;
};
Pair socket_pair() {
  int fds[2];
  SLUICE_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
  return {Fd(fds[0]), Fd(fds[1])};
}

bool ended(const Fd& pidfd) {
  pollfd p{pidfd.get(), POLLIN, 0};
  return ::poll(&p, 1, 20'000) == 1;
}

struct Instance {
  Fd pidfd, control;
  pid_t pid = 0;
  wire::Endpoint endpoint;

  Result<nlohmann::json> infer(int a, int b) const {
    wire::HttpClient client(endpoint, Seconds(20));
    const auto input = [](const char* name, int value) -> nlohmann::json {
      return {{"name", name}, {"datatype", "INT32"}, {"shape", {1, 1}}, {"data", {value}}};
    };
    return client.json(wire::http::verb::post, "/v2/models/f/infer",
                       {{"inputs", {input("a", a), input("b", b)}}});
  }
};

class ZygoteTest : public testing::Test {
 protected:
  ZygoteTest() : folder_(testing::TempDir() + "zygote" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    const auto tensors = [](const char* x, const char* y) {
      const std::string rest = R"(","datatype":"INT32","shape":[-1,1]})";
      return std::string(R"([{"name":")") + x + rest + R"(,{"name":")" + y + rest + "]";
    };
    std::ofstream(folder_ + "/m.json")
        << R"({"name":"m","platform":"sluice_builtin","inputs":)" << tensors("a", "b")
        << R"(,"outputs":)" << tensors("x", "y") << "}";
    std::ofstream(folder_ + "/m.model") << R"({"builtin":"add_sub"})";
    Pair pair = socket_pair();
    zygote_ = ::fork();
    if (zygote_ == 0) {
      pair.ours.reset();
      ::_exit(run_zygote(std::move(pair.theirs)));
    }
    control_ = std::move(pair.ours);
  }
  ~ZygoteTest() override {
    control_.reset();
    int status = 0;
    EXPECT_EQ(::waitpid(zygote_, &status, 0), zygote_);
    EXPECT_EQ(status, 0);
    std::filesystem::remove_all(folder_);
  }

  template <class M>
  Result<M> hear(const Fd& from, size_t descriptors = 0) {
    SLUICE_ASSIGN(packet, wire::receive_packet(from.get()));
    if (*wire::kind_of(packet) == wire::ZygoteKind::kFailed)
      return wire::error_of(*wire::message_of<wire::Failed>(packet));
    if (descriptors > 0) received_ = std::move(packet.fds[0]);
    return wire::message_of<M>(packet);
  }

  // Returns the daemon's end of the template's socket.
  Fd start_template(const std::string& path, uint32_t uid = 0) {
    Pair pair = socket_pair();
    wire::StartTemplate start{.uid = uid};
    wire::set_text(start.model_path, path);
    const int fds[] = {pair.theirs.get()};
    EXPECT_TRUE(wire::send_message(control_.get(), start, fds).ok());
    const auto started = hear<wire::Started>(control_, 1);
    EXPECT_TRUE(started.ok());
    template_ = started.ok() ? started->pid : 0;
    return std::move(pair.ours);
  }

  Instance start_instance(const Fd& model, const std::string& id) {
    Instance instance;
    instance.endpoint = {.path = folder_ + "/" + id + ".sock"};
    const Fd listening = std::move(*wire::listen_on(instance.endpoint, 0666));
    const Fd log(
        ::open((folder_ + "/" + id + ".log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    Pair pair = socket_pair();
    wire::StartInstance start;
    wire::set_text(start.id, id);
    wire::set_text(start.model_name, "f");
    const int fds[] = {listening.get(), pair.theirs.get(), log.get()};
    EXPECT_TRUE(wire::send_message(model.get(), start, fds).ok());
    const auto started = hear<wire::Started>(model, 1);
    EXPECT_TRUE(started.ok()) << started.error().message;
    instance.pid = started.ok() ? started->pid : 0;
    instance.pidfd = std::move(received_);
    instance.control = std::move(pair.ours);
    return instance;
  }

  void go(const Instance& instance) {
    ASSERT_TRUE(wire::send_message(instance.control.get(), wire::Go{}).ok());
    const auto ready = hear<wire::Ready>(instance.control);
    ASSERT_TRUE(ready.ok()) << ready.error().message;
  }

  const std::string folder_;
  pid_t zygote_ = 0, template_ = 0;  // the newest template
  Fd control_;
  Fd received_;
};

TEST_F(ZygoteTest, AnInstanceServesAfterGoAndDrains) {
  const Fd model = start_template(folder_ + "/m.model");
  ASSERT_TRUE(hear<wire::Ready>(model).ok());
  Instance a = start_instance(model, "a"), b = start_instance(model, "b");
  EXPECT_NE(a.pid, b.pid);
  go(a);
  go(b);
  const auto answer = a.infer(5, 3);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ((*answer)["outputs"][0]["data"][0], 8);
  EXPECT_TRUE(wire::send_message(a.control.get(), wire::Resize{.threads = 2}).ok());
  EXPECT_TRUE(a.infer(1, 1).ok());
  EXPECT_TRUE(wire::send_message(a.control.get(), wire::Drain{}).ok());
  EXPECT_TRUE(ended(a.pidfd));
  EXPECT_TRUE(b.infer(1, 1).ok());
  EXPECT_EQ(::kill(b.pid, SIGTERM), 0);
  EXPECT_TRUE(ended(b.pidfd));
}

// Within the size of this test's own command line.
TEST_F(ZygoteTest, AnInstanceSaysWhatItIs) {
  const Fd model = start_template(folder_ + "/m.model");
  ASSERT_TRUE(hear<wire::Ready>(model).ok());
  const Instance a = start_instance(model, "a");
  go(a);
  const std::string proc = "/proc/" + std::to_string(a.pid);
  std::string name, title;
  std::getline(std::ifstream(proc + "/comm"), name);
  std::getline(std::ifstream(proc + "/cmdline"), title, '\0');
  EXPECT_EQ(name, "sluice-instance");
  EXPECT_FALSE(title.empty());
  EXPECT_THAT("sluice-runtime: instance a", StartsWith(title));
  EXPECT_EQ(::kill(a.pid, SIGTERM), 0);
  EXPECT_TRUE(ended(a.pidfd));
}

TEST_F(ZygoteTest, NothingRunsBeforeGo) {
  const Fd model = start_template(folder_ + "/m.model");
  ASSERT_TRUE(hear<wire::Ready>(model).ok());
  Instance a = start_instance(model, "a");
  // It dies with a daemon that has not sent Go.
  a.control.reset();
  EXPECT_TRUE(ended(a.pidfd));
}

TEST_F(ZygoteTest, AnInstanceOutlivesDaemonZygoteAndTemplate) {
  Fd model = start_template(folder_ + "/m.model");
  ASSERT_TRUE(hear<wire::Ready>(model).ok());
  const Fd template_pidfd = std::move(received_);
  Instance a = start_instance(model, "a");
  go(a);
  a.control.reset();
  model.reset();
  EXPECT_TRUE(ended(template_pidfd));
  EXPECT_TRUE(a.infer(2, 2).ok());
  EXPECT_EQ(::kill(a.pid, SIGTERM), 0);
  EXPECT_TRUE(ended(a.pidfd));
}

TEST_F(ZygoteTest, ATemplateThatCannotLoadSaysWhyAndEnds) {
  const Fd model = start_template(folder_ + "/none.pt");
  const Fd pidfd = std::move(received_);
  const auto outcome = hear<wire::Ready>(model);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(outcome.error().message, HasSubstr("none.pt"));
  EXPECT_TRUE(ended(pidfd));
}

TEST_F(ZygoteTest, MessagesThatMakeNoSenseAreRefused) {
  ASSERT_TRUE(wire::send_message(control_.get(), wire::StartTemplate{}).ok());  // without a socket
  EXPECT_EQ(hear<wire::Started>(control_).error().kind, ErrorKind::kInvalid);
  ASSERT_TRUE(wire::send_message(control_.get(), wire::Drain{}).ok());
  EXPECT_EQ(hear<wire::Started>(control_).error().kind, ErrorKind::kInvalid);
  const Fd model = start_template(folder_ + "/m.model");  // it is alive
  EXPECT_TRUE(hear<wire::Ready>(model).ok());
}

// What the status of a process says of its rights.
std::string status_of(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  return {std::istreambuf_iterator<char>(status), {}};
}

TEST_F(ZygoteTest, ATemplateAndItsInstancesHaveItsUidAndNoRights) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root";
  const Fd model = start_template(folder_ + "/m.model", 61234);
  ASSERT_TRUE(hear<wire::Ready>(model).ok());
  Instance a = start_instance(model, "a");
  go(a);
  for (const pid_t pid : {template_, a.pid}) {
    const std::string text = status_of(pid);
    EXPECT_THAT(text, HasSubstr("Uid:\t61234\t61234\t61234\t61234"));
    EXPECT_THAT(text, HasSubstr("Gid:\t61234\t61234\t61234\t61234"));
    EXPECT_THAT(text, HasSubstr("CapEff:\t0000000000000000"));
    EXPECT_THAT(text, HasSubstr("CapPrm:\t0000000000000000"));
    EXPECT_THAT(text, HasSubstr("NoNewPrivs:\t1"));
  }
  EXPECT_TRUE(a.infer(2, 2).ok());
  EXPECT_EQ(::kill(a.pid, SIGTERM), 0);
  EXPECT_TRUE(ended(a.pidfd));
}

}  // namespace
}  // namespace sluice::runtime
