// Templates of a real runtime and their instances share weights over a model store. It frees them
// with their last user, even when all of them were killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>

#include "store/server.h"
#include "tests/support/eventually.h"
#include "tests/support/folder.h"
#include "tests/support/store_client.h"
#include "wire/http/http.h"
#include "wire/zygote.h"

namespace sluice {
namespace {

constexpr char kModel[] = SLUICE_MODELS "/mlp.pt";

// Ends with its socket; the pid is for killing it before.
struct Process {
  Fd control;
  pid_t pid = 0;
  std::string socket;  // an instance's
};

class StoredTemplates : public testing::Test {
 protected:
  StoredTemplates() {
    node::SocketEnds pair = node::socket_pair();
    zygote_.control = std::move(pair.ours);
    zygote_.pid = fork();
    if (zygote_.pid != 0) return;
    dup2(pair.theirs.get(), 3);
    execl(SLUICE_RUNTIME, SLUICE_RUNTIME, "zygote", "--control-fd", "3", nullptr);
    _exit(127);
  }
  ~StoredTemplates() override {
    zygote_.control.reset();
    waitpid(zygote_.pid, nullptr, 0);
  }

  // Asks `from` for a process that shares `fds` with it; returns once it is ready.
  template <class Request>
  Process start(const Fd& from, const Request& request, node::SocketEnds control,
                std::span<const int> fds, bool waits_for_go) {
    EXPECT_TRUE(wire::send_message(from.get(), request, fds).ok());
    Process p{.control = std::move(control.ours)};
    const auto started = wire::receive_packet(from.get());
    EXPECT_TRUE(started.ok());
    const auto message = wire::message_of<wire::Started>(*started, 1);
    EXPECT_TRUE(message.ok()) << message.error().message;
    p.pid = message->pid;
    if (waits_for_go) {
      EXPECT_TRUE(wire::send_message(p.control.get(), wire::Go{}).ok());
    }
    control.theirs.reset();
    const auto ready = wire::receive_packet(p.control.get());
    EXPECT_TRUE(ready.ok() && wire::message_of<wire::Ready>(*ready).ok());
    return p;
  }
  Process start_template() {
    wire::StartTemplate request;
    wire::set_text(request.model_path, kModel);
    node::SocketEnds control = node::socket_pair(), weights = node::socket_pair();
    EXPECT_TRUE(store_.adopt(std::move(weights.ours), "mlp").ok());
    const std::array fds{control.theirs.get(), weights.theirs.get()};
    return start(zygote_.control, request, std::move(control), fds, false);
  }
  Process start_instance(const Process& of) {
    const std::string socket = folder_.path + "/" + std::to_string(++instances_);
    const Fd listening = std::move(*wire::listen_on({.path = socket}));
    wire::StartInstance request;
    wire::set_text(request.id, std::to_string(instances_));
    wire::set_text(request.model_name, "mlp");
    node::SocketEnds control = node::socket_pair();
    const std::array fds{listening.get(), control.theirs.get(), STDERR_FILENO};
    Process p = start(of.control, request, std::move(control), fds, true);
    p.socket = socket;
    return p;
  }

  static nlohmann::json answer_of(const Process& instance) {
    wire::HttpClient client({.path = instance.socket}, Seconds(60));
    const nlohmann::json input{{"name", "input"},
                               {"datatype", "FP32"},
                               {"shape", {1, 64}},
                               {"data", std::vector<float>(64, 0.5F)}};
    const auto answer =
        client.json(wire::http::verb::post, "/v2/models/mlp/infer", {{"inputs", {input}}});
    EXPECT_TRUE(answer.ok()) << answer.error().message;
    return answer.ok() ? (*answer)["outputs"][0]["data"] : nlohmann::json();
  }
  testing::AssertionResult connections_become(size_t number) {
    return eventually(std::to_string(number) + " connections",
                      [&] { return store_.use().connections == number; });
  }

  const TemporaryFolder folder_;
  node::StoreServer store_{node::host_memory(), {.capacity = 1 << 20}};
  Process zygote_;
  int instances_ = 0;
};

TEST_F(StoredTemplates, ShareOneCopyThatGoesWithItsLastUserHoweverThatEnds) {
  const Process first = start_template();
  const Process a = start_instance(first);
  const uint64_t bytes = store_.use().bytes;
  EXPECT_EQ(store_.use().tensors, 1u);
  kill(first.pid, SIGKILL);

  const Process second = start_template();
  const Process b = start_instance(second);
  EXPECT_EQ(store_.use().tensors, 1u) << "what the first's instance still has";
  EXPECT_EQ(store_.use().bytes, bytes);
  EXPECT_EQ(answer_of(a), answer_of(b));

  kill(a.pid, SIGKILL);
  ASSERT_TRUE(connections_become(1));
  EXPECT_EQ(store_.use().tensors, 1u);
  kill(second.pid, SIGKILL);
  EXPECT_FALSE(answer_of(b).empty()) << "it reads what the first has stored";
  kill(b.pid, SIGKILL);
  ASSERT_TRUE(connections_become(0));
  EXPECT_EQ(store_.use().bytes, 0u);
}

}  // namespace
}  // namespace sluice
