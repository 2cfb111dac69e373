// Uses processes, because a lock does not keep out its own process: the holder is a child of the
// test.
#include "base/lock_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <functional>

#include "tests/support/eventually.h"
#include "tests/support/folder.h"

namespace sluice {
namespace {

struct LockFile : testing::Test {
  const TemporaryFolder folder;
  const std::string path = folder.path + "/up.lock";
};

// A process that runs `body`, and then waits for its end. The constructor returns once the body has
// run.
class Process {
 public:
  explicit Process(const std::function<void()>& body) {
    int ends[2];
    SLUICE_CHECK(pipe(ends) == 0, "pipe");
    const Fd read_end(ends[0]);
    Fd write_end(ends[1]);
    pid = fork();
    if (pid == 0) {
      body();
      write_end.reset();
      for (;;) pause();
    }
    write_end.reset();
    char byte;
    while (::read(read_end.get(), &byte, 1) < 0) {
    }
  }
  ~Process() { end(); }
  void end() {
    if (pid == 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = 0;
  }
  pid_t pid = 0;
};

TEST_F(LockFile, NobodyHoldsWhatNobodyTook) {
  EXPECT_EQ(*lock_holder(path), 0);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(take_lock(path).ok());  // and releases it at once
  EXPECT_EQ(*lock_holder(path), 0);
}

TEST_F(LockFile, ASecondTakerLearnsWhoHoldsIt) {
  Result<Fd> lock = Error{};
  Process holder([&] { lock = take_lock(path); });
  EXPECT_EQ(*lock_holder(path), holder.pid);
  const Result<Fd> second = take_lock(path);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kConflict);
  EXPECT_EQ(second.error().message, path + " is held by process " + std::to_string(holder.pid));
  EXPECT_EQ(*lock_holder(path), holder.pid);  // the query has not taken it away
}

TEST_F(LockFile, GoesWithItsHolderHoweverThatEnds) {
  Result<Fd> lock = Error{};
  Process holder([&] { lock = take_lock(path); });
  holder.end();
  EXPECT_EQ(*lock_holder(path), 0);
  EXPECT_TRUE(take_lock(path).ok());
}

TEST_F(LockFile, AForkedChildDoesNotKeepIt) {
  Result<Fd> lock = take_lock(path);
  ASSERT_TRUE(lock.ok());
  const Process child([] {});  // has the descriptor, too
  lock->reset();
  Result<Fd> another = Error{};
  const Process taker([&] { another = take_lock(path); });
  EXPECT_EQ(*lock_holder(path), taker.pid);
}

TEST_F(LockFile, IsKeptByTheProgramThatItsTakerBecomes) {
  constexpr int kLockFd = 9;
  const pid_t pid = fork();
  if (pid == 0) {
    if (lock_for_program(path.c_str(), kLockFd)) execlp("sleep", "sleep", "1000", nullptr);
    _exit(1);
  }
  const auto program = [&] {
    return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe").filename();
  };
  const auto own = std::filesystem::read_symlink("/proc/self/exe").filename();
  ASSERT_TRUE(eventually("the program", [&] { return program() != own; }));
  const auto holder = open_lock_holder(path);
  ASSERT_TRUE(holder.ok() && holder->has_value());
  EXPECT_EQ((*holder)->pid, pid);
  Process second([&] {
    if (lock_for_program(path.c_str(), kLockFd)) _exit(1);
  });
  EXPECT_EQ(*lock_holder(path), pid);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_FALSE(open_lock_holder(path)->has_value());
}

TEST_F(LockFile, WhatCannotBeOpenedSaysWhy) {
  EXPECT_EQ(take_lock(folder.path + "/no/such").error().message,
            folder.path + "/no/such: No such file or directory");
  EXPECT_EQ(take_lock(folder.path).error().message, folder.path + ": Is a directory");
}

}  // namespace
}  // namespace sluice
