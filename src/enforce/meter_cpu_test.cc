#include "enforce/meter_cpu.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/burner.h"

namespace sluice::node {
namespace {

using testing::FieldsAre;
using testing::Optional;

class ScriptedCounter : public CpuCounter {
 public:
  explicit ScriptedCounter(Nanos& value) : value_(value) {}
  Nanos read() override { return value_; }

 private:
  Nanos& value_;
};

class CpuMeterTest : public testing::Test {
 protected:
  Time at(Nanos t) const { return start + t; }
  CpuMeter meter_of(int millicores) {
    return CpuMeter(std::make_unique<ScriptedCounter>(used), millicores, start);
  }
  static std::optional<Reading> poll(CpuMeter& meter, Time now, bool resting) {
    meter.look();
    return meter.poll(now, resting);
  }
  const Time start{std::chrono::hours(1)};
  Nanos used = Seconds(100);  // earlier use is not charged
};

TEST_F(CpuMeterTest, BusyTimeIsCpuTimePerCoreHeld) {
  const struct {
    int millicores;
    Nanos cpu, busy;
  } kTable[] = {{1000, Millis(8), Millis(8)},
                {800, Millis(8), Millis(10)},
                {2000, Millis(8), Millis(4)},
                {250, Millis(8), Millis(32)}};
  for (const auto& row : kTable) {
    CpuMeter meter = meter_of(row.millicores);
    used += row.cpu;
    EXPECT_THAT(poll(meter, at(Millis(10)), false), Optional(FieldsAre(row.busy, at(Millis(10)))));
    EXPECT_EQ(poll(meter, at(Millis(10)), false), std::nullopt);
  }
}

// The kernel's counter may lag a tick for a running thread: an unchanged counter means nothing
// until the tick must have passed.
TEST_F(CpuMeterTest, SilenceIsNothingUsedOnlyWhenAtRestOrLong) {
  CpuMeter meter = meter_of(1000);
  EXPECT_EQ(poll(meter, at(Millis(3)), false), std::nullopt);
  EXPECT_THAT(poll(meter, at(Millis(4)), true), Optional(FieldsAre(Nanos(0), at(Millis(4)))));
  EXPECT_EQ(poll(meter, at(Millis(5)), false), std::nullopt);
  EXPECT_THAT(poll(meter, at(CpuMeter::kLag), false),
              Optional(FieldsAre(Nanos(0), at(CpuMeter::kLag))));
}

TEST_F(CpuMeterTest, ACounterThatGoesBackChargesNothing) {
  CpuMeter meter = meter_of(1000);
  used -= Millis(5);
  EXPECT_EQ(poll(meter, at(Millis(1)), false), std::nullopt);
  used += Millis(6);
  EXPECT_THAT(poll(meter, at(Millis(2)), false), Optional(FieldsAre(Millis(1), at(Millis(2)))));
}

TEST(CgroupCounter, ReadsBothVersions) {
  const std::string path = testing::TempDir() + "/counter-" + std::to_string(getpid());
  const auto read = [&](const char* text) {
    std::ofstream(path) << text;
    auto counter = CgroupCounter::open(path);
    return counter.ok() ? (*counter)->read() : Nanos(-1);
  };
  EXPECT_EQ(read("1234567\n"), Nanos(1234567));
  EXPECT_EQ(read("usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n"), Micros(1234));
  EXPECT_EQ(read(""), Nanos(0));
  unlink(path.c_str());
  EXPECT_FALSE(CgroupCounter::open(path).ok());
}

TEST(LaterCounter, CountsFromItsBeginning) {
  const std::string path = testing::TempDir() + "/later-" + std::to_string(getpid());
  LaterCounter counter;
  counter.begin(path);
  EXPECT_EQ(counter.read(), Nanos(0));  // there is no group yet
  std::ofstream(path) << "5000\n";
  counter.begin(path);
  EXPECT_EQ(counter.read(), Nanos(0));
  std::ofstream(path) << "5700\n";
  counter.begin(path);
  EXPECT_EQ(counter.read(), Nanos(700));
  unlink(path.c_str());
}

TEST(ProcessCounter, AddsUpTheClocksOfItsProcesses) {
  Burner burner;
  ProcessCounter counter;
  const ProcessIdentity process{burner.pid(), 1};
  counter.add_process(process);
  burner.burn(Millis(20));
  EXPECT_GE(counter.read(), Millis(20));
  burner.end();
  const Nanos last = counter.read();
  EXPECT_GE(last, Millis(20));
  counter.remove_process(process);
  EXPECT_EQ(counter.read(), last);  // use of ended processes still counts
}

TEST(Pace, AShareOfACoreRunsAtAWholeOnes) {
  EXPECT_EQ(pace_on(1000), 1000);
  EXPECT_EQ(pace_on(4000), 1000);
  EXPECT_EQ(pace_on(800), 1250);
}

}  // namespace
}  // namespace sluice::node
