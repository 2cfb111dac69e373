// A short shard of bench/siege: training jobs on a platform under kills, stops and damages. Seeded.
#include <gtest/gtest.h>

#include "tests/support/gateway_bed.h"
#include "tests/support/siege_training.h"

namespace sluice::bench {
namespace {

TEST(Siege, NoSampleIsLostOrUsedTwiceAndNoJobIsSilent) {
  const Result<TrainingSieged> t = besiege_training(
      {.platform = {.sluice = beside_us("sluice"), .runtime = beside_us("fake_runtime")},
       .demonstrations = SLUICE_TRAINING,
       .script = SLUICE_PROGRAMS "/elastic_ledger.py",
       .events = 20,
       .epochs = 40,
       .leave_stopped = false});
  ASSERT_TRUE(t.ok()) << t.error().message;
  std::string notes;
  for (const std::string& note : t->notes) notes += note + "\n";
  SCOPED_TRACE(notes);
  EXPECT_GE(t->finished, 2);
  EXPECT_EQ(t->wrong, 0);
  EXPECT_EQ(t->failed, 0);
  EXPECT_EQ(t->leftovers, 0);
  EXPECT_LT(t->longest_silence, 60);
}

}  // namespace
}  // namespace sluice::bench
