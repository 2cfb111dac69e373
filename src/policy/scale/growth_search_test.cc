// Dilu's profiling: the path of its trials, and where it ends.
#include "policy/scale/growth_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace sluice::policy {
namespace {

// A batch of b takes (4 + b) ms on half a device or more; below, in inverse proportion. Batches
// above 8 bring nothing more.
Nanos toy(int batch, Share share) {
  const double cut = std::min(1.0, share.fraction() / 0.5);
  return from_seconds((4.0 + batch + (batch > 8 ? batch : 0)) / 1000 / cut);
}

// Returns the trials in their order, "batch at share".
std::string path(const GrowthBounds& bounds, std::optional<Star>* star = nullptr) {
  std::string text;
  const auto found = growth_search(bounds, [&](int batch, Share share) {
    text += std::to_string(batch) + " at " + std::to_string(share.permille / 10) + ", ";
    return toy(batch, share);
  });
  if (star != nullptr) *star = found;
  return text;
}

TEST(GrowthSearch, DoublesTheBatchInTimeAndRaisesTheShareWhenLate) {
  std::optional<Star> star;
  EXPECT_EQ(path({.in_time = Millis(20), .largest_batch = 64}, &star),
            "1 at 10, 1 at 20, 2 at 20, 4 at 20, 8 at 20, 8 at 30, 16 at 30, 16 at 40, 16 at 50, "
            "16 at 60, 16 at 70, 16 at 80, 16 at 90, 16 at 100, ");
  EXPECT_EQ(star, (Star{8, {{300}, {600}}, Millis(20), 14}));
}

TEST(GrowthSearch, EndsWhereTheEfficacyFalls) {
  std::optional<Star> star;
  EXPECT_EQ(
      path({.in_time = Millis(40), .largest_batch = 64}, &star),
      "1 at 10, 2 at 10, 4 at 10, 8 at 10, 8 at 20, 16 at 20, 16 at 30, 16 at 40, 16 at 50, ");
  EXPECT_EQ(star, (Star{8, {{200}, {400}}, Millis(30), 9}));
}

TEST(GrowthSearch, WithoutAnObjectiveTheLeastShareAndTheBestBatch) {
  std::optional<Star> star;
  path({.largest_batch = 64}, &star);
  ASSERT_TRUE(star);
  EXPECT_EQ(star->batch, 8);
  EXPECT_EQ(star->quota, (Quota{{100}, {200}}));
}

TEST(GrowthSearch, KeepsToTheLargestBatch) {
  std::optional<Star> star;
  EXPECT_EQ(path({.in_time = Millis(20), .largest_batch = 3}, &star),
            "1 at 10, 1 at 20, 2 at 20, ");
  EXPECT_EQ(star->batch, 2);
}

TEST(GrowthSearch, TheLimitIsAtMostTheWholeDevice) {
  std::optional<Star> star;
  path({.in_time = Millis(5)}, &star);
  EXPECT_EQ(star->quota, (Quota{{500}, {1000}}));
  path({.in_time = Millis(5), .step = {300}}, &star);
  EXPECT_EQ(star->quota, (Quota{{600}, {1000}}));
}

TEST(GrowthSearch, NothingIsInTime) {
  std::optional<Star> star;
  EXPECT_EQ(path({.in_time = Millis(4), .step = {300}}, &star),
            "1 at 30, 1 at 60, 1 at 90, 1 at 100, ");
  EXPECT_EQ(star, std::nullopt);
  EXPECT_EQ(growth_search({}, [](int, Share) { return std::optional<Nanos>(); }), std::nullopt);
}

TEST(TrainingSearch, RequestKeepsFourFifthsAndLimitTheWholeThroughput) {
  // Saturates at 70 % of a device.
  const auto found =
      training_search([](Share s) { return std::min(1.0, s.fraction() / 0.7) * 123; });
  EXPECT_NEAR(found.quota.request.fraction(), 0.56, 0.02 * 0.56);
  EXPECT_EQ(found.quota.limit, Share{750}) << "the first that reaches it";
  EXPECT_LE(found.trials, 10);
}

TEST(TrainingSearch, OfAJobThatScalesToTheEnd) {
  const auto found = training_search([](Share s) { return s.fraction(); });
  EXPECT_NEAR(found.quota.request.fraction(), 0.8, 0.016);
  EXPECT_NEAR(found.quota.limit.fraction(), 1, 0.02);
}

}  // namespace
}  // namespace sluice::policy
