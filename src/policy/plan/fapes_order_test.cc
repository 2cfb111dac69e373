// fapes_order: which job is planned first.
#include "policy/plan/fapes_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kPopUp = 1800;

FapesClaim new_job(double waited) {
  return {.is_new = true, .waited = waited, .age = waited};
}
FapesClaim replanned(double achievement) {
  return {.age = 9000, .achievement = achievement};
}
FapesClaim stopped(double waited) {
  return {.waited = waited, .age = 9000, .achievement = 0.5};
}

TEST(FapesOrder, NewJobsFirstTheLongestWaitingAhead) {
  const FapesClaim claims[] = {replanned(0.9), new_job(10), new_job(700)};
  EXPECT_THAT(fapes_order(claims, kPopUp), ElementsAre(2, 1, 0));
}

TEST(FapesOrder, ReplannedJobsByAchievement) {
  const FapesClaim claims[] = {replanned(0.2), replanned(0.8), replanned(0.5)};
  EXPECT_THAT(fapes_order(claims, kPopUp), ElementsAre(1, 2, 0));
}

TEST(FapesOrder, AJobThatWasStoppedPopsUpAfterThreeRounds) {
  const FapesClaim before[] = {new_job(2400), stopped(1200)};
  EXPECT_THAT(fapes_order(before, kPopUp), ElementsAre(0, 1));
  const FapesClaim after[] = {new_job(2400), stopped(1800), stopped(2400)};
  EXPECT_THAT(fapes_order(after, kPopUp), ElementsAre(2, 1, 0));
}

TEST(FapesOrder, AHigherPriorityComesFirstInAnyCase) {
  FapesClaim important = replanned(0.1);
  important.priority = 1;
  const FapesClaim claims[] = {new_job(100), stopped(9000), important};
  EXPECT_THAT(fapes_order(claims, kPopUp), ElementsAre(2, 1, 0));
}

TEST(FapesOrder, OfEqualClaimsTheOlderJob) {
  FapesClaim young = replanned(0.5), old = replanned(0.5);
  old.age = 10'000;
  const FapesClaim claims[] = {young, old, young};
  EXPECT_THAT(fapes_order(claims, kPopUp), ElementsAre(1, 0, 2));
  EXPECT_THAT(fapes_order({}, kPopUp), IsEmpty());
}

}  // namespace
}  // namespace sluice::policy
