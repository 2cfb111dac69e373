// Sums of what processes hold: tables of single conversations, and random ones against plain sums.
#include "enforce/memory_ledger.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/random.h"

namespace sluice::node {
namespace {

constexpr MemoryAccount kAccount = 1, kOther = 2;

TEST(MemoryLedger, AHolderGetsWhatFitsAndARefusalChangesNothing) {
  const struct {
    const char* what;
    Bytes limit, others, had, least, most, gets;
  } kTable[] = {
      {"what it asks for", 100, 0, 0, 10, 10, 10},
      {"all that there is", 100, 0, 0, 100, 100, 100},
      {"one more than there is", 100, 0, 0, 101, 101, 0},
      {"one more than others leave", 100, 60, 0, 41, 41, 0},
      {"just what others leave", 100, 60, 0, 40, 40, 40},
      {"headroom, a third of the room: there are two", 100, 0, 0, 10, 90, 40},
      {"no more headroom than it wants", 100, 0, 0, 10, 12, 12},
      {"no headroom where there is no room", 100, 90, 0, 10, 90, 10},
      {"more than it had", 100, 0, 30, 50, 50, 50},
      {"refused, it keeps what it had", 100, 60, 30, 50, 50, 30},
      {"what it has already", 100, 0, 50, 40, 60, 50},
      {"gives back", 100, 0, 50, 20, 20, 20},
      {"gives back all", 100, 0, 50, 0, 0, 0},
      {"most below least means least", 100, 0, 0, 10, 5, 10},
      {"less than nothing is nothing", 100, 0, 50, -1, -7, 0},
      {"more than anybody can have", 100, 0, 20, std::numeric_limits<Bytes>::max(),
       std::numeric_limits<Bytes>::max(), 20},
  };
  for (const auto& row : kTable) {
    MemoryLedger ledger;
    ledger.open(kAccount, row.limit);
    const MemoryHolder other = ledger.join(kAccount, row.others, 0);
    const MemoryHolder holder = ledger.join(kAccount, row.had, 0);
    EXPECT_EQ(ledger.hold(holder, row.least, row.most), row.gets) << row.what;
    EXPECT_EQ(ledger.held_by(holder), row.gets) << row.what;
    EXPECT_EQ(ledger.held_by(other), row.others) << row.what;
    EXPECT_EQ(ledger.find(kAccount)->held, row.others + row.gets) << row.what;
  }
}

TEST(MemoryLedger, ALowerLimitTakesNothingAndGivesNothing) {
  MemoryLedger ledger;
  ledger.open(kAccount, 100);
  const MemoryHolder holder = ledger.join(kAccount, 0, 0);
  EXPECT_EQ(ledger.hold(holder, 80, 80), 80);
  ledger.set_limit(kAccount, 50);
  EXPECT_EQ(ledger.hold(holder, 81, 81), 80);
  EXPECT_EQ(ledger.hold(holder, 45, 45), 45);
  EXPECT_EQ(ledger.hold(holder, 51, 51), 45);
  EXPECT_EQ(ledger.hold(holder, 50, 50), 50);
}

TEST(MemoryLedger, WhoComesHasAContext) {
  MemoryLedger ledger;
  ledger.open(kAccount, 100);
  const MemoryHolder a = ledger.join(kAccount, 0, 30), b = ledger.join(kAccount, 0, 30);
  EXPECT_EQ(ledger.hold(a, 41, 41), 0);
  EXPECT_EQ(ledger.hold(a, 40, 40), 40);
  ledger.leave(b);
  EXPECT_EQ(ledger.hold(a, 70, 70), 70);
}

// A process holds so much, then so much, then the device reports what it has. Its headroom is at
// most 20.
TEST(MemoryLedger, AContextIsWhatTheDeviceSaysBesideWhatIsHeld) {
  const struct {
    const char* what;
    Bytes guess, held_before, held, says, context;
  } kTable[] = {
      {"nothing was known of it", 0, 100, 100, 130, 30},
      {"as was thought", 30, 100, 100, 130, 30},
      {"more than was thought", 10, 100, 100, 130, 30},
      {"a part of the headroom may not be used", 45, 100, 100, 130, 45},
      {"not more of it", 60, 100, 100, 130, 50},
      {"freed meanwhile, but not yet then", 30, 100, 0, 130, 30},
      {"allocated meanwhile, but not yet then", 30, 0, 100, 30, 30},
      {"it holds more than it uses, and pays for that", 30, 120, 120, 60, 0},
      {"it has no context", 30, 10, 10, 0, 0},
      {"more than can be", 0, 0, 0, std::numeric_limits<Bytes>::max(), kMostMemory},
      {"less than nothing", 30, 0, 0, -1, 0},
  };
  for (const auto& row : kTable) {
    MemoryLedger ledger;
    ledger.open(kAccount, 160);
    const MemoryHolder holder = ledger.join(kAccount, row.held_before, row.guess);
    EXPECT_FALSE(ledger.is_judged(holder)) << row.what;
    ledger.hold(holder, row.held, row.held);
    ledger.device_says(holder, row.says);
    EXPECT_EQ(ledger.context_of(holder), row.context) << row.what;
    EXPECT_EQ(ledger.find(kAccount)->held, row.held + row.context) << row.what;
  }
}

TEST(MemoryLedger, OfWhatTheDeviceSaysTwoFiguresInARowCount) {
  MemoryLedger ledger;
  ledger.open(kAccount, 1600);
  const MemoryHolder holder = ledger.join(kAccount, 100, 0);
  const Bytes said[] = {130, 190, 130, 150, 150, 30, 130};
  const Bytes context[] = {30, 30, 30, 30, 50, 50, 50};
  for (size_t i = 0; i < std::size(said); ++i) {
    ledger.device_says(holder, said[i]);
    EXPECT_EQ(ledger.context_of(holder), context[i]) << i;
  }
}

TEST(MemoryLedger, WhoComesBackHadInItsContextWhatItHadNotSaid) {
  MemoryLedger ledger;
  ledger.open(kAccount, 1600);
  const MemoryHolder holder = ledger.join(kAccount, 100, 30);
  ledger.device_says(holder, 170);
  EXPECT_EQ(ledger.context_of(holder), 70);
  EXPECT_EQ(ledger.rejoin(holder, 140), 140);
  EXPECT_EQ(ledger.context_of(holder), 30);
  EXPECT_EQ(ledger.rejoin(holder, 500), 500);
  EXPECT_EQ(ledger.context_of(holder), 30);  // as before any figure
}

TEST(MemoryLedger, WhatExistsIsWrittenDownWhateverTheLimit) {
  MemoryLedger ledger;
  ledger.open(kAccount, 100);
  const MemoryHolder holder = ledger.join(kAccount, 120, 0);
  EXPECT_EQ(ledger.find(kAccount)->held, 120);
  EXPECT_EQ(ledger.rejoin(holder, 90), 120);  // as recorded
  EXPECT_EQ(ledger.rejoin(holder, 130), 130);
  EXPECT_EQ(ledger.hold(holder, 131, 131), 130);
}

TEST(MemoryLedger, AccountsAndHoldersThatAreGoneHoldNothing) {
  MemoryLedger ledger;
  EXPECT_EQ(ledger.join(kAccount, 5, 0), 0u);
  ledger.open(kAccount, 100);
  ledger.open(kOther, 10);
  const MemoryHolder a = ledger.join(kAccount, 5, 0), b = ledger.join(kOther, 5, 0);
  ledger.leave(a);
  ledger.leave(a);
  EXPECT_EQ(ledger.find(kAccount)->held, 0);
  EXPECT_EQ(ledger.hold(a, 5, 5), 0);
  ledger.close(kOther);
  EXPECT_EQ(ledger.find(kOther), nullptr);
  EXPECT_EQ(ledger.hold(b, 5, 5), 0);
  EXPECT_EQ(ledger.rejoin(b, 5), 0);
  ledger.leave(b);
}

TEST(MemoryLedger, WhatSomebodyMayHaveIsKeptForItUntilItIsHeardOf) {
  for (const bool device : {false, true}) {
    MemoryLedger ledger;
    ledger.open(kAccount, 100);
    const MemoryHolder a = ledger.join(kAccount, 20, 5), b = ledger.join(kAccount, 20, 5);
    ledger.expect(a, 25);
    ledger.expect(b, 25);
    EXPECT_EQ(ledger.hold(a, 21, 21), 20);
    EXPECT_EQ(ledger.rejoin(a, 30), 30);
    EXPECT_EQ(ledger.hold(a, 46, 46), 30);
    EXPECT_EQ(ledger.hold(a, 45, 45), 45);
    if (device)
      ledger.device_says(b, 25);
    else
      ledger.rejoin(b, 20);
    EXPECT_EQ(ledger.hold(a, 70, 70), 70);
    ledger.expect(b, 25);
    ledger.leave(b);
    ledger.leave(a);
    EXPECT_EQ(ledger.find(kAccount)->held, 0);
  }
}

// Processes that join, ask for anything, and die; limits that move. Plain sums check it.
class RandomLedger {
 public:
  explicit RandomLedger(uint64_t seed) : random_(seed) { ledger_.open(kAccount, limit_); }

  void step() {
    switch (below(8)) {
      case 0:
        processes_.push_back({.number = ledger_.join(kAccount, 0, kContext)});
        break;
      case 1:
        if (!processes_.empty()) die();
        break;
      case 2:
        ledger_.set_limit(kAccount, limit_ = below(2000));
        break;
      default:
        if (!processes_.empty()) ask();
    }
    check();
  }
  void end() {
    while (!processes_.empty()) die();
    check();
  }

 private:
  static constexpr Bytes kContext = 7;
  struct Process {
    MemoryHolder number = 0;
    Bytes held = 0;
  };

  Bytes below(Bytes end) { return random_.between(0, end - 1); }
  Bytes any_number() {
    constexpr Bytes kHostile[] = {std::numeric_limits<Bytes>::min(), -1, 0, kMostMemory,
                                  std::numeric_limits<Bytes>::max()};
    return below(10) == 0 ? kHostile[below(std::size(kHostile))] : below(500);
  }
  size_t any_process() { return static_cast<size_t>(below(static_cast<Bytes>(processes_.size()))); }
  void die() {
    const size_t which = any_process();
    ledger_.leave(processes_[which].number);
    processes_.erase(processes_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void ask() {
    Process& process = processes_[any_process()];
    const Bytes before = sum(), least = any_number(), most = any_number();
    const Bytes held = ledger_.hold(process.number, least, most);
    if (held > process.held) {
      EXPECT_LE(before - process.held + held, limit_);
      EXPECT_GE(held, least);
    }
    process.held = held;
  }
  Bytes sum() const {
    Bytes all = static_cast<Bytes>(processes_.size()) * kContext;
    for (const Process& process : processes_) all += process.held;
    return all;
  }
  void check() const {
    ASSERT_EQ(ledger_.find(kAccount)->held, sum());
    ASSERT_EQ(ledger_.find(kAccount)->holders, static_cast<int>(processes_.size()));
    for (const Process& process : processes_)
      ASSERT_EQ(ledger_.held_by(process.number), process.held);
  }

  Random random_;
  MemoryLedger ledger_;
  Bytes limit_ = 1000;
  std::vector<Process> processes_;
};

TEST(MemoryLedger, RandomProcessesNeverGetMoreThanTheLimitAndLeaveNothingBehind) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomLedger random(seed);
    for (int i = 0; i < 2000 && !testing::Test::HasFatalFailure(); ++i) random.step();
    random.end();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace sluice::node
