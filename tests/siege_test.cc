// A short shard of bench/siege. Its checks hold on a machine of any speed: answers are right,
// killed processes come back, nothing is left over. Seeded.
#include "tests/support/siege.h"

#include <gtest/gtest.h>

namespace sluice::bench {

void PrintTo(const Attack& attack, std::ostream* out) {
  *out << attack.name;
}

namespace {

const std::vector<std::string> kGateway = {beside_us("gateway_main"), "gateway"};
const PlatformSettings kPlatform{
    .sluice = beside_us("sluice"), .runtime = beside_us("fake_runtime"), .fake_load_ms = 20};

class Attacks : public testing::TestWithParam<Attack> {};

TEST_P(Attacks, HonestClientsAreServedAndGetNoWrongAnswer) {
  const Result<Attacked> a =
      attack({.gateway = kGateway, .service = Millis(20), .lasts = Millis(500)}, GetParam());
  ASSERT_TRUE(a.ok()) << a.error().message;
  EXPECT_TRUE(a->worked) << a->about;
  for (const Honest& honest : {a->beside_attack, a->beside_busy_process}) {
    EXPECT_GT(honest.tally.right, 0);
    EXPECT_EQ(honest.tally.wrong, 0);
    EXPECT_EQ(honest.tally.broken, 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Siege, Attacks, testing::ValuesIn(attacks(1000, 50)),
                         [](const auto& test) {
                           std::string name = test.param.name;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Siege, AClientThatEndsItsSideBehindTheRequestGetsItsAnswer) {
  const Result<HalfClosed> h =
      half_close({.gateway = kGateway, .service = Millis(20), .lasts = Millis(500)});
  ASSERT_TRUE(h.ok()) << h.error().message;
  EXPECT_GT(h->half_closed.sent, 0);
  EXPECT_EQ(h->half_closed.right, h->half_closed.sent);
  EXPECT_EQ(h->others.right, h->others.sent);
}

TEST(Siege, ASpellingOfAPathIsCountedAsAnInferenceOrUnknown) {
  const Result<std::vector<Spelling>> paths = spell_paths({.gateway = kGateway});
  ASSERT_TRUE(paths.ok()) << paths.error().message;
  EXPECT_EQ(paths->front().status, 200);
  for (const Spelling& s : *paths)
    EXPECT_TRUE(s.right) << s.path << ": " << s.status << ", counted " << s.counted;
}

TEST(Siege, TheControlApiOutlivesBodiesWithoutAToken) {
  const Result<ControlAttacked> c = attack_control(kPlatform, 20, 2, Seconds(5));
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_GE(c->opened, 20u);
  EXPECT_TRUE(c->alive);
}

TEST(Siege, KilledProcessesComeBackAndNoAnswerIsWrong) {
  const Result<Killed> k = kill_at_random({.platform = kPlatform, .kills = 8});
  ASSERT_TRUE(k.ok()) << k.error().message;
  EXPECT_GE(k->killed, 8);
  EXPECT_GT(k->tally.right, 0);
  EXPECT_EQ(k->tally.wrong, 0);
  EXPECT_EQ(k->never_whole, 0);
  EXPECT_EQ(k->leftovers, 0);
}

}  // namespace
}  // namespace sluice::bench
