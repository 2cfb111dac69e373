#include "enforce/page.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cerrno>
#include <functional>
#include <string>

namespace sluice::node {
namespace {

// Runs `attack` in a child that has only the descriptors that a client receives.
bool succeeds_as_client(const std::function<bool()>& attack) {
  const pid_t child = fork();
  if (child == 0) _exit(attack() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class PagesTest : public testing::Test {
 protected:
  PagesTest() {
    auto made = Pages::make(7);
    EXPECT_TRUE(made.ok());
    pages.emplace(std::move(made->first));
    fds = std::move(made->second);
  }
  void* map(const Fd& fd, int prot) {
    void* p = mmap(nullptr, SLUICE_PAGE_SIZE, prot, MAP_SHARED, fd.get(), 0);
    return p == MAP_FAILED ? nullptr : p;
  }
  Fd reopen(const Fd& fd) {
    return Fd(open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDWR));
  }

  std::optional<Pages> pages;
  PageFds fds;
};

TEST_F(PagesTest, SayWhatTheyAreAndGrantNothing) {
  const auto* permit = static_cast<const sluice_permit_page*>(map(fds.permit, PROT_READ));
  const auto* usage = static_cast<const sluice_usage_page*>(map(fds.usage, PROT_READ));
  ASSERT_NE(permit, nullptr);
  ASSERT_NE(usage, nullptr);
  EXPECT_TRUE(sluice_header_ok(&permit->header, SLUICE_PERMIT_MAGIC));
  EXPECT_TRUE(sluice_header_ok(&usage->header, SLUICE_USAGE_MAGIC));
  EXPECT_EQ(permit->header.generation, 7u);
  sluice_grant grant;
  EXPECT_FALSE(sluice_permit_read(permit, &grant));
}

TEST_F(PagesTest, AClientCanWriteItsUsageAlone) {
  EXPECT_TRUE(succeeds_as_client([&] {
    auto* usage = static_cast<sluice_usage_page*>(map(fds.usage, PROT_READ | PROT_WRITE));
    return usage != nullptr && (usage->waiting = 3) == 3;
  }));
  EXPECT_TRUE(pages->usage().waiting);
}

// Each row is a way in which a client might raise its own permit.
TEST_F(PagesTest, AClientCannotWriteItsPermit) {
  const struct {
    const char* name;
    std::function<bool()> attack;
  } kAttacks[] = {
      {"map writable", [&] { return map(fds.permit, PROT_READ | PROT_WRITE) != nullptr; }},
      {"mprotect",
       [&] {
         void* p = map(fds.permit, PROT_READ);
         return mprotect(p, SLUICE_PAGE_SIZE, PROT_READ | PROT_WRITE) == 0;
       }},
      {"write", [&] { return pwrite(fds.permit.get(), "x", 1, 64) == 1; }},
      {"re-open and write",
       [&] {
         const Fd again = reopen(fds.permit);
         return pwrite(again.get(), "x", 1, 64) == 1;
       }},
      {"re-open and map",
       [&] {
         const Fd again = reopen(fds.permit);
         return map(again, PROT_READ | PROT_WRITE) != nullptr;
       }},
      {"write through /proc/self/mem",
       [&] {
         void* p = map(fds.permit, PROT_READ);
         const Fd mem(open("/proc/self/mem", O_RDWR));
         return pwrite(mem.get(), "x", 1, reinterpret_cast<off_t>(p) + 64) == 1;
       }},
      {"punch a hole",
       [&] {
         const Fd again = reopen(fds.permit);
         return fallocate(again.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                          SLUICE_PAGE_SIZE) == 0;
       }},
      {"shrink", [&] { return ftruncate(reopen(fds.permit).get(), 0) == 0; }},
      {"grow", [&] { return ftruncate(reopen(fds.permit).get(), 2 * SLUICE_PAGE_SIZE) == 0; }},
      {"seal against the daemon",
       [&] { return fcntl(reopen(fds.permit).get(), F_ADD_SEALS, F_SEAL_WRITE) == 0; }},
      {"shrink the usage page", [&] { return ftruncate(fds.usage.get(), 0) == 0; }},
      {"seal the usage page",
       [&] { return fcntl(fds.usage.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0; }},
  };
  for (const auto& row : kAttacks) EXPECT_FALSE(succeeds_as_client(row.attack)) << row.name;
  EXPECT_EQ(pages->seq(), 1u);
}

// Not even this process can: that is why a restarted daemon makes new pages.
TEST_F(PagesTest, NobodyMapsThePermitWritableAgain) {
  EXPECT_EQ(map(reopen(fds.permit), PROT_READ | PROT_WRITE), nullptr);
  sluice_permit_grant(&pages->permit(), 1, 1, 1);  // the first map still writes
  EXPECT_EQ(pages->seq(), 2u);
}

}  // namespace
}  // namespace sluice::node
