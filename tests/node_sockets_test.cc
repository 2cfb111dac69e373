// Each slice's own permit socket on a real node daemon: made with the slice, made again by the next
// daemon, gone with the slice; and which processes belong to it.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/child.h"
#include "tests/support/node_with_gpus.h"
#include "tests/support/permit_caller.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using node::answer_at;
using node::PermitCaller;

const std::string kUnknown = "refused " + std::to_string(SLUICE_REFUSED_UNKNOWN);

// The slice's program does nothing; this process, outside of the slice, asks at its socket.
class NodeSockets : public NodeWithGpus {
 protected:
  NodeSockets() {
    idle_ = fork();
    if (idle_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  ~NodeSockets() override { end_program(); }
  std::string put_on(const std::string& device) {
    const json taken = take(idle_, device);
    EXPECT_EQ(taken["status"], 200) << taken;
    return taken["environment"].value("SLUICE_PERMIT_SOCKET", "");
  }
  void end_program() {
    if (idle_ == 0) return;
    kill(idle_, SIGKILL);
    waitpid(idle_, nullptr, 0);
    idle_ = 0;
  }

  pid_t idle_ = 0;
};

ino_t inode_of(const std::string& path) {
  struct stat s {};
  return stat(path.c_str(), &s) == 0 ? s.st_ino : 0;
}

TEST_F(NodeSockets, WhoComesToASlicesSocketBelongsToIt) {
  const std::string own = put_on("cuda1");
  EXPECT_EQ(own, node_->data + "/run/p/program/sock");
  EXPECT_EQ(answer_at(own), "welcome");
  EXPECT_EQ(answer_at(node_->data + "/run/permit.sock"), kUnknown);
}

TEST_F(NodeSockets, AnotherUsersProcessDoesNot) {
  if (geteuid() != 0) GTEST_SKIP() << "another user can be tried as root alone";
  const std::string own = put_on("cuda1");
  const std::string said =
      in_child([&](int out) {
        std::string all = setuid(61998) == 0 ? "" : "still root";
        for (const uint32_t type : {SLUICE_HELLO, SLUICE_MEMORY_HELLO, SLUICE_MEMORY_LOOK})
          all += answer_at(own, type) + "; ";
        if (write(out, all.data(), all.size()) < 0) _exit(1);
      }).said;
  EXPECT_EQ(said, kUnknown + "; " + kUnknown + "; " + kUnknown + "; ");
  struct stat s {};
  ASSERT_EQ(stat((node_->data + "/run/p").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0711u) << "whose slices there are is not for all to see";
}

// As in a container: with its own numbers, and the socket's folder mounted anywhere.
TEST_F(NodeSockets, AlsoFromAContainer) {
  const fs::path own = put_on("cuda1"), there = node_->data + "/there";
  fs::create_directory(there);
  const auto enter = [&] {
    return unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, "") == 0 &&
           mount(own.parent_path().c_str(), there.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
           mount("none", there.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  };
  const std::string said = in_child([&](int out) {
                             const bool may = enter();
                             const pid_t inner = may ? fork() : -1;
                             const std::string word = inner == 0 ? answer_at(there / own.filename())
                                                                 : std::string(may ? "" : "no");
                             if (write(out, word.data(), word.size()) < 0) _exit(1);
                             if (inner > 0) waitpid(inner, nullptr, 0);
                           }).said;
  if (said == "no") GTEST_SKIP() << "no namespaces without root";
  EXPECT_EQ(said, "welcome");
}

// As after `sudo -u` in a program: the process is under the slice, whatever its user.
TEST_F(NodeSockets, AProcessOfTheSliceThatBecameAnotherUsersDoes) {
  if (geteuid() != 0) GTEST_SKIP() << "another user can be tried as root alone";
  const std::string said =
      in_child([&](int out) {
        const json taken = take(getpid(), "cuda1");
        const bool other = setuid(61998) == 0;
        const std::string word =
            other ? answer_at(taken["environment"].value("SLUICE_PERMIT_SOCKET", ""))
                  : "still root";
        if (write(out, word.data(), word.size()) < 0) _exit(1);
      }).said;
  EXPECT_EQ(said, "welcome");
}

// The kernel counts use there in the slice's group: a process outside of it would go uncounted.
TEST_F(NodeSockets, OnACpuOneHasToBeUnderTheSliceAsWell) {
  EXPECT_EQ(answer_at(put_on("cpu0")), kUnknown);
}

TEST_F(NodeSockets, ItIsThereAgainWithTheNextDaemon) {
  const std::string own = put_on("cuda1");
  const ino_t folder = inode_of(node_->data + "/run/p/program");
  EXPECT_EQ(PermitCaller(own, SLUICE_HELLO).generation(), 1u);
  node_->restart();
  node_->get("/v1/state");  // once it serves
  EXPECT_EQ(PermitCaller(own, SLUICE_HELLO).generation(), 2u);
  EXPECT_EQ(inode_of(node_->data + "/run/p/program"), folder) << "it may be mounted elsewhere";
}

TEST_F(NodeSockets, ItEndsWithTheSlice) {
  const std::string own = put_on("cuda1");
  EXPECT_EQ(node_->remove("program")["status"], 202);
  EXPECT_EQ(answer_at(own), "nobody");
  EXPECT_EQ(inode_of(node_->data + "/run/p/program"), 0u);
}

TEST_F(NodeSockets, AlsoWhenThatEndedWithoutADaemon) {
  const std::string own = put_on("cuda1");
  node_->stop(SIGKILL);
  EXPECT_EQ(answer_at(own), "nobody");
  end_program();
  node_->launch();
  node_->get("/v1/state");
  EXPECT_EQ(answer_at(own), "nobody");
  EXPECT_EQ(inode_of(node_->data + "/run/p/program"), 0u);
}

}  // namespace
}  // namespace sluice
