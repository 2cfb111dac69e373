#include "node/uid_claim.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "tests/support/folder.h"

namespace sluice::node {
namespace {

using testing::HasSubstr;

// Blocks that no platform chooses by itself, so that this machine's own platforms do not interfere.
constexpr uid_t kBlock = 1'900'000'000;

// A process that has run `begin` and then waits for its end.
class Process {
 public:
  explicit Process(const std::function<bool()>& begin) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const bool begun = begin();
      (void)!write(ends[1], &begun, 1);
      for (;;) pause();
    }
    EXPECT_EQ(read(ends[0], &begun_, 1), 1);
    close(ends[0]);
    close(ends[1]);
  }
  ~Process() { end(); }
  Process(const Process&) = delete;
  void end() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  bool begun() const { return begun_; }

 private:
  pid_t pid_ = 0;
  bool begun_ = false;
};

struct UidClaims : testing::Test {
  UidRequest request(uid_t first, std::set<uid_t> ours = {}) const {
    return {.file = folder.path + "/claims", .first = first, .ours = std::move(ours)};
  }
  // Another platform's daemon.
  std::unique_ptr<Process> daemon_with(uid_t first) const {
    return std::make_unique<Process>([this, first] {
      static std::optional<UidClaim> held;
      Result<UidClaim> claim = claim_uids(request(first));
      if (claim.ok()) held = std::move(*claim);
      return held.has_value();
    });
  }
  TemporaryFolder folder;
};

TEST_F(UidClaims, ABlockIsClaimedOnceAndFreeWithItsDaemonsEnd) {
  auto other = daemon_with(kBlock);
  ASSERT_TRUE(other->begun());
  for (const uid_t overlapping : {kBlock, kBlock + 500, kBlock - 500}) {
    const Result<UidClaim> refused = claim_uids(request(overlapping));
    ASSERT_FALSE(refused.ok()) << overlapping;
    EXPECT_EQ(refused.error().kind, ErrorKind::kConflict);
    EXPECT_EQ(refused.error().message,
              "first-uid: uids " + std::to_string(overlapping) + " to " +
                  std::to_string(overlapping + 999) +
                  " are taken: claimed by the node daemon of another platform, process " +
                  std::to_string(other->pid()));
  }
  EXPECT_TRUE(claim_uids(request(kBlock + 1000)).ok());
  other->end();
  EXPECT_TRUE(claim_uids(request(kBlock)).ok());
}

TEST_F(UidClaims, WithoutAWishTheNextFreeBlockIsTakenAndSaid) {
  const Result<UidClaim> usual = claim_uids(request(0));
  ASSERT_TRUE(usual.ok()) << usual.error().message;
  const uid_t first = usual->first;
  const Process next([&] {
    const Result<UidClaim> claim = claim_uids(request(0));
    return claim.ok() && claim->first > first &&
           claim->passed_over.find("are taken") != std::string::npos;
  });
  EXPECT_TRUE(next.begun());
}

TEST_F(UidClaims, TheBlockOfInstancesThatOutliveTheirDaemonIsTheirPlatforms) {
  if (geteuid() != 0) GTEST_SKIP() << "runs a process under another uid";
  constexpr uid_t kUid = kBlock + 2007;
  const Process instance([] { return setresuid(kUid, kUid, kUid) == 0; });
  ASSERT_TRUE(instance.begun());
  const Result<UidClaim> others = claim_uids(request(kBlock + 2000));
  ASSERT_FALSE(others.ok());
  EXPECT_THAT(others.error().message,
              HasSubstr("process " + std::to_string(instance.pid()) +
                        ", no instance of this platform, runs as " + std::to_string(kUid)));
  const Result<UidClaim> again = claim_uids(request(0, {kUid}));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->first, kBlock + 2000);
}

TEST_F(UidClaims, AFileThatCannotBeMadeIsNamed) {
  EXPECT_THAT(claim_uids({.file = "/proc/claims"}).error().message, HasSubstr("/proc/claims: "));
}

}  // namespace
}  // namespace sluice::node
