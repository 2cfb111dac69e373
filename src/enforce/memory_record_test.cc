// A record of what processes hold, as the daemon after a killed one reads it.
#include "enforce/memory_record.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

namespace sluice::node {
namespace {

using Slots = std::map<MemoryRecord::Slot, Holding>;

Holding holding(const std::string& slice, pid_t pid, Bytes held) {
  return {.slice = slice, .process = {.pid = pid, .start_time = 7}, .held = held, .context = 3};
}

class MemoryRecordTest : public testing::Test {
 protected:
  ~MemoryRecordTest() override { std::filesystem::remove(path); }

  MemoryRecord open() const { return std::move(*MemoryRecord::open(path)); }

  const std::string path = testing::TempDir() + "/memory-record-" + std::to_string(getpid());
};

TEST_F(MemoryRecordTest, WhatWasWrittenIsThereForTheNext) {
  {
    MemoryRecord record = open();
    EXPECT_EQ(record.take("a"), Slots{});
    const auto first = *record.add(holding("a", 1, 10));
    record.remove(*record.add(holding("a", 2, 20)));
    EXPECT_TRUE(record.add(holding("b", 3, 30)).ok());
    EXPECT_TRUE(record.add(holding("a", 4, 40)).ok());
    EXPECT_TRUE(record.write(first, holding("a", 1, 50)).ok());
  }
  for (int again = 0; again < 2; ++again) {
    MemoryRecord record = open();
    EXPECT_EQ(record.take("a"), (Slots{{1, holding("a", 1, 50)}, {3, holding("a", 4, 40)}}));
    EXPECT_EQ(record.take("a"), Slots{});
    EXPECT_EQ(record.take("b"), (Slots{{2, holding("b", 3, 30)}}));
  }
}

TEST_F(MemoryRecordTest, WhatNobodyTakesIsForgotten) {
  EXPECT_TRUE(open().add(holding("ended", 1, 10)).ok());
  {
    MemoryRecord record = open();
    EXPECT_TRUE(record.add(holding("a", 2, 20)).ok());
  }
  MemoryRecord record = open();
  EXPECT_EQ(record.take("a").size(), 1u);
  record.forget_others();
  EXPECT_EQ(*record.add(holding("b", 3, 30)), 1) << "in the place of the one that ended";
  record = open();
  EXPECT_EQ(record.take("ended"), Slots{});
  EXPECT_EQ(record.take("a").size(), 1u);
  EXPECT_EQ(record.take("b").size(), 1u);
}

TEST_F(MemoryRecordTest, ASlotThatIsFreeIsUsedAgain) {
  for (int again = 0; again < 3; ++again) {
    MemoryRecord record = open();
    for (int i = 1; i <= 100; ++i) record.remove(*record.add(holding("a", i, i)));
  }
  EXPECT_EQ(std::filesystem::file_size(path), 2 * 256);
}

TEST_F(MemoryRecordTest, AnotherBootsIsBegunAnew) {
  EXPECT_TRUE(open().add(holding("a", 1, 10)).ok());
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(8) << "another boot";
  EXPECT_EQ(open().take("a"), Slots{});
  std::ofstream(path) << "pieces";
  EXPECT_EQ(MemoryRecord::open(path, false)->take("a"), Slots{});
  EXPECT_TRUE(open().add(holding("a", 1, 10)).ok());
  EXPECT_EQ(open().take("a").size(), 1u);
}

// Overwrites what stands at `offset`. Returns the error of opening it then.
TEST_F(MemoryRecordTest, OneThatCannotBeUnderstoodIsAnErrorAndStays) {
  EXPECT_TRUE(open().add(holding("a", 1, 10)).ok());
  const auto error_with = [&](std::streamoff offset, const std::string& bytes) {
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(offset) << bytes;
    const Result<MemoryRecord> opened = MemoryRecord::open(path);
    return opened.ok() ? "" : opened.error().message;
  };
  constexpr std::streamoff kSlot = 256, kHeld = kSlot, kProcess = kSlot + 24, kName = kSlot + 32;
  const std::string minus(8, '\xff'), zero(8, '\0');
  EXPECT_NE(error_with(kHeld, minus).find("slot 1"), std::string::npos);
  EXPECT_EQ(error_with(kHeld, zero), "");
  EXPECT_NE(error_with(kProcess, minus).find("slot 1"), std::string::npos);
  EXPECT_EQ(error_with(kProcess, std::string("\1\0\0\0", 4)), "");
  EXPECT_NE(error_with(kName, zero).find("remove the file"), std::string::npos);
  EXPECT_EQ(error_with(kName, "a"), "");
  EXPECT_NE(error_with(0, "pieces").find("its head"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(path), 512) << "nothing was deleted on a guess";
}

TEST_F(MemoryRecordTest, NothingIsAddedWhereThereIsNoRoom) {
  MemoryRecord record = open();
  ASSERT_TRUE(record.add(holding("a", 1, 10)).ok());
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit none{.rlim_cur = 512, .rlim_max = before.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &none);
  const bool added = record.add(holding("a", 2, 20)).ok();
  const bool written = record.write(1, holding("a", 1, 11)).ok();
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_FALSE(added);
  EXPECT_TRUE(written);
  EXPECT_TRUE(record.add(holding("a", 2, 20)).ok());
  EXPECT_EQ(open().take("a").size(), 2u);
}

TEST_F(MemoryRecordTest, AFolderThatIsNotThereIsSaid) {
  EXPECT_FALSE(MemoryRecord::open("/nowhere/record").ok());
}

}  // namespace
}  // namespace sluice::node
