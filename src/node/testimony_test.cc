// Which stretches of a process's account are judged, and how.
#include "node/testimony.h"

#include <gmock/gmock.h>

#include <array>
#include <ostream>

#include "node/device_reports_for_test.h"

namespace sluice::node {

using Verdict = Testimony::Verdict;

void PrintTo(Verdict v, std::ostream* out) {
  *out << std::array{"no news", "not refuted", "true", "untrue"}[static_cast<size_t>(v)];
}

namespace {

// It attaches after a second, says for two seconds that it is busy for a tenth of the time, and
// leaves.
class TestimonyTest : public testing::Test {
 protected:
  TestimonyTest() : testimony(kProcess, at(Seconds(1))) {
    testimony.attach(at(Seconds(1)));
    for (Nanos t{0}; t <= Seconds(2); t += Millis(10)) testimony.hear(at(Seconds(1) + t), t / 10);
  }
  void leave() { testimony.leave(at(Seconds(3))); }
  Verdict told(Nanos from, Nanos until, Nanos busy) {
    return testimony.judge(DeviceUse{at(from), at(until), busy, Millis(10)}, at(Seconds(10)));
  }

  Testimony testimony;
};

TEST_F(TestimonyTest, AStretchIsJudgedIfItWasThereFromItsBeginning) {
  testimony.spoke();
  EXPECT_EQ(told(Millis(900), Millis(1900), Millis(500)), Verdict::kNoNews);
  EXPECT_FALSE(testimony.known());
  EXPECT_EQ(told(Millis(1000), Millis(1900), Millis(90)), Verdict::kTrue);
  EXPECT_EQ(told(Millis(1000), Millis(1900), Millis(90)), Verdict::kNoNews) << "it is the same";
  EXPECT_EQ(told(Millis(1900), Millis(2900), Millis(120)), Verdict::kUntrue);
}

TEST_F(TestimonyTest, WhatIsTooLittleAddsUp) {
  testimony.spoke();
  EXPECT_EQ(told(Millis(1000), Millis(1200), Millis(20)), Verdict::kNotRefuted);
  EXPECT_EQ(told(Millis(1200), Millis(1400), Millis(20)), Verdict::kTrue);
  EXPECT_EQ(told(Millis(1400), Millis(1600), Millis(33)), Verdict::kTrue);
  EXPECT_EQ(told(Millis(1600), Millis(1800), Millis(33)), Verdict::kUntrue) << "twice 3 ms";
}

TEST_F(TestimonyTest, ThenItMustHaveSaidSomething) {
  EXPECT_EQ(told(Millis(1000), Millis(1900), Millis(1)), Verdict::kUntrue);
}

TEST_F(TestimonyTest, ItIsJudgedWhenItHasLeft) {
  testimony.spoke();
  leave();
  EXPECT_EQ(told(Millis(2900), Millis(3900), Millis(10)), Verdict::kNotRefuted);
  EXPECT_EQ(told(Millis(3900), Millis(4900), Millis(500)), Verdict::kNoNews) << "not here";
  EXPECT_FALSE(testimony.outdated(at(Seconds(6))));
  EXPECT_TRUE(testimony.outdated(at(Seconds(6) + Millis(1))));
}

// Killed before its first report.
TEST_F(TestimonyTest, OneThatLeftBeforeItSpokeIsForgivenALittle) {
  leave();
  EXPECT_EQ(told(Millis(2000), Millis(3000), Millis(105)), Verdict::kTrue);
  EXPECT_EQ(told(Millis(2990), Millis(3990), Millis(105)), Verdict::kUntrue);
}

TEST_F(TestimonyTest, ItIsTheSameWhenItAttachesAgain) {
  testimony.spoke();
  leave();
  testimony.attach(at(Millis(4200)));
  EXPECT_TRUE(testimony.attached());
  EXPECT_EQ(told(Millis(2500), Millis(3500), Millis(50)), Verdict::kTrue);
  EXPECT_EQ(told(Millis(3500), Millis(4200), Millis(500)), Verdict::kNoNews) << "it was away";
  EXPECT_EQ(told(Millis(3500), Millis(4500), Millis(16)), Verdict::kUntrue);
}

}  // namespace
}  // namespace sluice::node
