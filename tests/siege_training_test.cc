// A short shard of bench/siege with training jobs and their real workers. Seeded.
#include "tests/support/siege_training.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/gateway_bed.h"

namespace sluice::bench {
namespace {

TrainingSiege siege() {
  return {.platform = {.sluice = beside_us("sluice"), .runtime = beside_us("fake_runtime")},
          .demonstrations = SLUICE_TRAINING,
          .script = SLUICE_PROGRAMS "/elastic_ledger.py",
          .events = 0,
          .epochs = 12,
          .leave_stopped = false};
}

void expect_nothing_lost(const TrainingSieged& t) {
  std::string notes;
  for (const std::string& line : t.notes) notes += line + "\n";
  EXPECT_GE(t.finished, 2) << notes;
  EXPECT_EQ(t.failed, 0) << notes;
  EXPECT_EQ(t.wrong, 0) << notes;
  EXPECT_EQ(t.leftovers, 0) << notes;
}

TEST(TrainingSiege, JobsLoseNoSampleByTwentyKillsAndDamages) {
  TrainingSiege with = siege();
  with.events = 20;
  with.waits = false;
  const Result<TrainingSieged> t = besiege_training(with);
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_EQ(t->events, 20);
  expect_nothing_lost(*t);
}

TEST(TrainingSiege, HostileUsersTakeNothingOfOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "without root, there is one user";
  TrainingSiege with = siege();
  with.hostile = SLUICE_PROGRAMS "/hostile_user.py";
  with.hostile_lasts = Seconds(5);
  const Result<TrainingSieged> t = besiege_training(with);
  ASSERT_TRUE(t.ok()) << t.error().message;
  EXPECT_GT(t->hostilities.tried, 100);
  EXPECT_GT(t->hostilities.connections, 100);
  EXPECT_EQ(t->hostilities.taken, std::vector<std::string>());
  EXPECT_LE(t->control_mib, 256);
  expect_nothing_lost(*t);
}

}  // namespace
}  // namespace sluice::bench
