// Sums of what processes hold: tables of single conversations, and random ones against plain sums.
#include "node/memory_ledger.h"

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
    ledger.open(kAccount, row.limit, 0);
    const MemoryHolder other = ledger.join(kAccount, row.others);
    const MemoryHolder holder = ledger.join(kAccount, row.had);
    EXPECT_EQ(ledger.hold(holder, row.least, row.most), row.gets) << row.what;
    EXPECT_EQ(ledger.held_by(holder), row.gets) << row.what;
    EXPECT_EQ(ledger.held_by(other), row.others) << row.what;
    EXPECT_EQ(ledger.find(kAccount)->held, row.others + row.gets) << row.what;
  }
}

TEST(MemoryLedger, ALowerLimitTakesNothingAndGivesNothing) {
  MemoryLedger ledger;
  ledger.open(kAccount, 100, 0);
  const MemoryHolder holder = ledger.join(kAccount, 0);
  EXPECT_EQ(ledger.hold(holder, 80, 80), 80);
  ledger.set_limit(kAccount, 50);
  EXPECT_EQ(ledger.hold(holder, 81, 81), 80);
  EXPECT_EQ(ledger.hold(holder, 45, 45), 45);
  EXPECT_EQ(ledger.hold(holder, 51, 51), 45);
  EXPECT_EQ(ledger.hold(holder, 50, 50), 50);
}

TEST(MemoryLedger, WhoComesHasAContext) {
  MemoryLedger ledger;
  ledger.open(kAccount, 100, 30);
  const MemoryHolder a = ledger.join(kAccount, 0), b = ledger.join(kAccount, 0);
  EXPECT_EQ(ledger.hold(a, 41, 41), 0);
  EXPECT_EQ(ledger.hold(a, 40, 40), 40);
  ledger.leave(b);
  EXPECT_EQ(ledger.hold(a, 70, 70), 70);
}

TEST(MemoryLedger, WhatExistsIsWrittenDownWhateverTheLimit) {
  MemoryLedger ledger;
  ledger.open(kAccount, 100, 0);
  const MemoryHolder holder = ledger.join(kAccount, 120);
  EXPECT_EQ(ledger.find(kAccount)->held, 120);
  EXPECT_EQ(ledger.rejoin(holder, 90), 120);  // as it was written
  EXPECT_EQ(ledger.rejoin(holder, 130), 130);
  EXPECT_EQ(ledger.hold(holder, 131, 131), 130);
}

TEST(MemoryLedger, AccountsAndHoldersThatAreGoneHoldNothing) {
  MemoryLedger ledger;
  EXPECT_EQ(ledger.join(kAccount, 5), 0u);
  ledger.open(kAccount, 100, 0);
  ledger.open(kOther, 10, 0);
  const MemoryHolder a = ledger.join(kAccount, 5), b = ledger.join(kOther, 5);
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

// Processes that come, ask for anything, and die; limits that move. Beside it plain sums.
class RandomLedger {
 public:
  explicit RandomLedger(uint64_t seed) : random_(seed) { ledger_.open(kAccount, limit_, kContext); }

  void step() {
    switch (below(8)) {
      case 0:
        processes_.push_back({.number = ledger_.join(kAccount, 0)});
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
