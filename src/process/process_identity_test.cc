#include "process/process_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>

namespace sluice::node {
namespace {

// A child that waits until it is killed.
struct Sleeper {
  pid_t pid = fork();
  Sleeper() {
    if (pid != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  ~Sleeper() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
};

void wait_for_end(int pidfd) {
  pollfd p{pidfd, POLLIN, 0};
  ASSERT_EQ(poll(&p, 1, 10'000), 1);
}

TEST(ProcessIdentity, AProcessIsItselfAndNoOther) {
  const auto me = identity_of(getpid());
  ASSERT_TRUE(me.has_value());
  EXPECT_TRUE(open_process(*me).ok());
  const ProcessIdentity other{me->pid, me->start_time + 1};  // a reused pid
  EXPECT_EQ(open_process(other).error().kind, ErrorKind::kNotFound);
  EXPECT_FALSE(identity_of(0).has_value());
  EXPECT_FALSE(boot_id()->empty());
}

TEST(ProcessIdentity, AChildIsWhatTheKernelSaysItIs) {
  Sleeper s, other;
  const Fd fd = *open_process(*identity_of(s.pid));
  EXPECT_TRUE(is_child(fd.get(), s.pid, getpid(), geteuid()));
  EXPECT_FALSE(is_child(fd.get(), other.pid, getpid(), geteuid()));
  EXPECT_FALSE(is_child(fd.get(), s.pid, getppid(), geteuid()));
  EXPECT_FALSE(is_child(fd.get(), s.pid, getpid(), geteuid() + 1));
  EXPECT_FALSE(is_child(0, s.pid, getpid(), geteuid()));
  kill(s.pid, SIGKILL);
  wait_for_end(fd.get());
  EXPECT_TRUE(is_child(fd.get(), s.pid, getpid(), geteuid())) << "a corpse is no other process";
  waitpid(s.pid, nullptr, 0);
  EXPECT_FALSE(is_child(fd.get(), s.pid, getpid(), geteuid()));
}

TEST(ProcessIdentity, ACorpseIsGoneAndSaysHow) {
  Sleeper s;
  const ProcessIdentity who = *identity_of(s.pid);
  const Fd fd = *open_process(who);
  kill(s.pid, SIGKILL);
  wait_for_end(fd.get());
  EXPECT_FALSE(identity_of(s.pid).has_value());
  EXPECT_FALSE(open_process(who).ok());
  EXPECT_EQ(how_it_ended(fd.get()), "signal 9 (Killed)");
}

TEST(ProcessIdentity, AnExitCodeIsTold) {
  const pid_t pid = fork();
  if (pid == 0) _exit(3);
  const Fd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  wait_for_end(fd.get());
  EXPECT_EQ(how_it_ended(fd.get()), "exit code 3");
}

// The parent of an instance is its template, and after a restart of the daemon the process that
// adopts orphans.
TEST(ProcessIdentity, SomebodyElsesChildSaysHowToo) {
  int tells[2], may_reap[2];
  ASSERT_EQ(pipe(tells) | pipe(may_reap), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const pid_t child = fork();
    if (child == 0)
      for (;;) pause();
    (void)!write(tells[1], &child, sizeof child);
    char word = 0;
    (void)!read(may_reap[0], &word, 1);
    waitpid(child, nullptr, 0);
    _exit(0);
  }
  pid_t child = 0;
  ASSERT_EQ(read(tells[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  const Fd fd = *open_process(*identity_of(child));
  kill(child, SIGKILL);
  wait_for_end(fd.get());
  const std::string at_once = how_it_ended(fd.get());
  (void)!write(may_reap[1], "", 1);
  waitpid(parent, nullptr, 0);  // it has reaped the child
  const std::string later = how_it_ended(fd.get());
  for (const int end : {tells[0], tells[1], may_reap[0], may_reap[1]}) close(end);
  EXPECT_EQ(at_once, "signal 9 (Killed)");
  EXPECT_THAT(later, testing::AnyOf("signal 9 (Killed)", "ended; its parent alone knows how"));
}

TEST(ProcessIdentity, AFamilyIsAProcessAndItsDescendants) {
  Sleeper a, b;
  const std::vector<pid_t> ours = family_of(getpid());
  EXPECT_TRUE(std::ranges::count(ours, a.pid) == 1 && std::ranges::count(ours, b.pid) == 1);
  EXPECT_EQ(family_of(a.pid), std::vector{a.pid});
}

TEST(ProcessIdentity, AncestorsComeNearestFirst) {
  Sleeper child;
  const std::vector<ProcessIdentity> above = ancestors_of(child.pid), ours = ancestors_of(getpid());
  ASSERT_FALSE(above.empty());
  EXPECT_EQ(above.front(), identity_of(getpid()));
  EXPECT_EQ(std::vector(above.begin() + 1, above.end()), ours);
  EXPECT_TRUE(ancestors_of(0).empty());
}

}  // namespace
}  // namespace sluice::node
