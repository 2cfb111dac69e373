// A short shard of bench/overload. Its checks hold on a machine of any speed: answers are right,
// refusals are readable and say when to retry. Seeded.
#include <gtest/gtest.h>

#include "tests/support/overload_case.h"

namespace sluice::bench {
namespace {

TEST(Overload, AnswersAreRightAndRefusalsCanBeReadAndSayWhenToComeAgain) {
  const Result<Outcome> o = overload({.gateway = {beside_us("gateway_main"), "gateway"},
                                      .service = Millis(10),
                                      .factor = 10,
                                      .lasts = Seconds(2),
                                      .after = Seconds(1)});
  ASSERT_TRUE(o.ok()) << o.error().message;
  EXPECT_GT(o->all.right, 0);
  EXPECT_EQ(o->all.wrong, 0);
  EXPECT_GT(o->refused, 0);
  EXPECT_EQ(o->explained, o->refused);
  EXPECT_GE(o->retry_after_least, 1);
  EXPECT_EQ(o->unreadable, 0);
}

}  // namespace
}  // namespace sluice::bench
