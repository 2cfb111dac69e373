#include "node/readiness.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>

#include "tests/support/folder.h"
#include "wire/http/http.h"

namespace sluice::node {
namespace {

struct Readiness : testing::Test {
  Readiness() {
    child = fork();
    if (child == 0)
      for (;;) pause();
    pidfd = Fd(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  }
  ~Readiness() override {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  // Returns the result of ready_within() for a program that answers each GET with the next status,
  // the last one for ever; without statuses it does not listen.
  std::string outcome(const std::string& path, std::vector<int> statuses,
                      Nanos patience = Seconds(100)) {
    std::optional<wire::HttpServer> server;
    Result<Fd> listening = wire::listen_on(at);
    Probe probe{*wire::bound_to(*listening), path, uid, where};
    shown = to_string(probe.at);
    if (statuses.empty()) listening->reset();
    size_t asked = 0;
    const auto answer = [&](wire::HttpRequest request) -> asio::awaitable<wire::HttpResponse> {
      EXPECT_EQ(request.target(), path);
      co_return wire::error_response(statuses[std::min(asked++, statuses.size() - 1)], "");
    };
    if (!statuses.empty()) server.emplace(io, std::move(*listening), answer);
    std::string message = "none";
    asio::co_spawn(io, ready_within(io, clock, probe, pidfd.get(), patience),
                   [&](const std::exception_ptr&, const Result<void>& ready) {
                     message = ready.ok() ? "ready" : ready.error().message;
                     io.stop();
                   });
    io.restart();
    io.run();
    return message;
  }

  TemporaryFolder folder;
  std::string shown;  // the address
  uid_t uid = 0;      // of the program
  Probe::Where where = Probe::Where::kHere;
  wire::Endpoint at{.host = "127.0.0.1"};
  asio::io_context io{1};
  const SteadyClock clock;
  pid_t child;
  Fd pidfd;
};

// Its program, with a user id of its own, has not come to listen there.
TEST_F(Readiness, IsNotAnotherProgramsAtItsPort) {
  uid = getuid() + 1;
  const std::string lacking = outcome("/", {200}, Millis(50));
  EXPECT_EQ(lacking,
            "was not ready within 0 s: " + shown + " is a port at which another program listens");
}

TEST_F(Readiness, ElsewhereIsAtItsAddressUnderAnyUser) {
  at.host = "127.8.9.10";  // not where a program here is asked
  EXPECT_TRUE(outcome("/", {200}, Millis(50)).ends_with("does not listen: Connection refused"));
  uid = getuid() + 1;
  where = Probe::Where::kElsewhere;
  EXPECT_EQ(outcome("/", {200}), "ready");
}

TEST_F(Readiness, IsAnAnswer2xx) {
  EXPECT_EQ(outcome("/health", {200}), "ready");
}

TEST_F(Readiness, IsAskedForAgain) {
  EXPECT_EQ(outcome("/health", {503, 404, 201}), "ready");
}

TEST_F(Readiness, WithoutAPathIsAConnection) {
  EXPECT_EQ(outcome("", {500}), "ready");
}

TEST_F(Readiness, AlsoOfAUnixSocket) {
  at = {.path = folder.path + "/sock"};
  EXPECT_EQ(outcome("/", {503, 200}), "ready");
}

TEST_F(Readiness, SaysWhatWasLackingWhenPatienceEnds) {
  EXPECT_NE(outcome("/health", {503}, Millis(1)).find("GET /health: is answered 503"),
            std::string::npos);
  io.restart();
  EXPECT_NE(outcome("/health", {}, Millis(1)).find("does not listen: Connection refused"),
            std::string::npos);
}

TEST_F(Readiness, EndsWithTheProcess) {
  kill(child, SIGKILL);
  EXPECT_EQ(outcome("/health", {}), "ended before it was ready");
}

}  // namespace
}  // namespace sluice::node
