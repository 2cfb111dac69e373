// Slices are enforced between real processes, as the kernel counts it. One-sided: noise can only
// lower a client's use, so none of these can fail by noise. Each test also proves that the gate
// *was* attached and that work was done: an enforcement that is silently absent fails.
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/testbed.h"

namespace sluice::bench {
namespace {

constexpr Nanos kSpan = Seconds(3);
constexpr int kRequest = 200;
constexpr double kAtMost = 0.30;

class Enforcement : public testing::TestWithParam<std::string_view> {
 protected:
  void await_work(Testbed& bed, policy::ClientId id) {
    ASSERT_TRUE(eventually("32 units of work", [&] { return bed.progress(id).units >= 32; }))
        << bed.enforcement();
  }
  // Permits alone, without the backstop: it would hide ineffective permits.
  void expect_held(Load load) {
    Testbed bed({.arbiter = GetParam(), .backstop = false});
    const policy::ClientId id = bed.start(load, kRequest, kRequest);
    await_work(bed, id);
    const double share = used_share(bed, id, kSpan);
    EXPECT_LE(share, kAtMost) << bed.enforcement();
    EXPECT_GT(share, 0);
    EXPECT_EQ(bed.progress(id).gate, SLUICE_GATE_ATTACHED);
    RecordProperty("share", std::to_string(share));
    std::printf("share %.3f\n", share);
  }
};

TEST_P(Enforcement, ABusyClientAt20PercentUsesAtMost30) {
  expect_held(Load::kGreedy);
}
TEST_P(Enforcement, SoDoesOneThatReportsZero) {
  expect_held(Load::kReportsZero);
}
TEST_P(Enforcement, SoDoesOneThatLiesAboutEverything) {
  expect_held(Load::kLies);
}

INSTANTIATE_TEST_SUITE_P(, Enforcement, testing::Values("planned", "window", "multi_token"),
                         [](const auto& info) { return std::string(info.param); });

// A client that never asks for a permit is held by the kernel's quota: 1.2 × its limit in the long
// run. In a span of 3 s the kernel may add what is left of the period before it, and a burst as
// large as a period's quota: two periods of 500 ms. A twentieth more is the kernel's own grain. The
// limit is so small that on the busiest machine a client that is not held gets more.
constexpr int kSmallLimit = 50;
constexpr double kHeld = 1.05 * 1.2 * kSmallLimit / 1000 * 4 / 3;
static_assert(kSpan == Seconds(3));

TEST(Backstop, HoldsAClientThatNeverAsks) {
  Testbed bed({});
  if (!bed.has_backstop()) GTEST_SKIP() << bed.enforcement();
  const policy::ClientId id = bed.start(Load::kUngated, kSmallLimit, kSmallLimit);
  ASSERT_TRUE(eventually("a unit of work", [&] { return bed.progress(id).units > 0; }));
  EXPECT_LE(used_share(bed, id, kSpan), kHeld);
}

// The check above would detect a missing enforcement.
TEST(Backstop, WithoutItAClientThatNeverAsksIsNotHeld) {
  Testbed bed({.backstop = false});
  const policy::ClientId id = bed.start(Load::kUngated, kSmallLimit, kSmallLimit);
  ASSERT_TRUE(eventually("a unit of work", [&] { return bed.progress(id).units > 0; }));
  double highest = 0;  // noise can lower it for a while, not for ever
  for (int i = 0; i < 100 && highest <= kHeld; ++i)
    highest = std::max(highest, used_share(bed, id, Millis(300)));
  EXPECT_GT(highest, kHeld);
}

// Each write of the quota gives the group the runtime of a new period. In the span there may be as
// many writes as a group has at once, each worth the runtime and the burst of a period, and the one
// that it earns.
TEST(Backstop, AStormOfResizesGainsNoMoreThanItsWrites) {
  Testbed bed({});
  if (!bed.has_backstop()) GTEST_SKIP() << bed.enforcement();
  const policy::ClientId id = bed.start(Load::kUngated, kSmallLimit, kSmallLimit);
  ASSERT_TRUE(eventually("a unit of work", [&] { return bed.progress(id).units > 0; }));
  int resizes = 0;
  std::jthread storm([&](const std::stop_token& over) {
    for (; !over.stop_requested(); ++resizes) {
      const int limit = kSmallLimit - resizes % 2;
      EXPECT_TRUE(bed.resize(id, limit, limit).ok());
      std::this_thread::sleep_for(Millis(5));
    }
  });
  const double share = used_share(bed, id, kSpan);
  storm.request_stop();
  storm.join();
  EXPECT_GT(resizes, 20);
  const double gained = (node::QuotaWrites::kMost + 1) * 2 * 0.5;  // seconds of the quota
  EXPECT_LE(share, kHeld + 1.2 * kSmallLimit / 1000 * gained / seconds(kSpan)) << resizes;
}

// A gate that finds no daemon, and one that is refused, report that they enforce nothing.
TEST(Attachment, ThatIsMissingIsSeen) {
  Testbed bed({.backstop = false});
  const policy::ClientId id = bed.start(Load::kGreedy, kRequest, kRequest);
  ASSERT_TRUE(eventually("the gate to be attached",
                         [&] { return bed.progress(id).gate == SLUICE_GATE_ATTACHED; }));
  sluice_gate stranger{.socket_path = "/nonexistent"};
  sluice_thread* mine = nullptr;
  sluice_gate_pass(&stranger, &mine);
  EXPECT_EQ(sluice_gate_state(&stranger), SLUICE_GATE_OPEN);
  EXPECT_EQ(bed.host().state({0, id})->processes, 1);
}

}  // namespace
}  // namespace sluice::bench
