// fapes_filter: which running jobs are planned anew.
#include "policy/plan/fapes_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "base/random.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A job that achieves all with `best` devices, and the more of it the closer it is to that.
FilterJob with_best(int best) {
  return {.most = best, .expected = [best](int devices) {
            return std::sqrt(std::min(1.0, static_cast<double>(devices) / best));
          }};
}
FilterJob waiting(int best = 2) {
  return with_best(best);
}
FilterJob running(int devices, double achievement, int best) {
  FilterJob job = with_best(best);
  job.devices = devices;
  job.achievement = achievement;
  return job;
}

TEST(Achievement, IsTheMeanGoodputOverTheBest) {
  EXPECT_DOUBLE_EQ(achievement(10, 600, 30, 600, 40), 0.5);
  EXPECT_DOUBLE_EQ(achievement(0, 0, 30, 600, 40), 0.75);
  EXPECT_DOUBLE_EQ(achievement(50, 600, 50, 600, 40), 1) << "measured beyond the model's best";
  EXPECT_DOUBLE_EQ(achievement(0, 0, 0, 0, 40), 0);
}

// The paper's Fig. 8: four jobs hold eight devices, jobs 4 and 5 wait. The text has no numbers but
// that job 1 has one device; job 0 completes in the next round, job 2 is to have more.
TEST(FapesFilter, ShortJobsAndSmallJobsAreLeftAloneAndAWastefulOneIsSelected) {
  std::vector<FilterJob> jobs = {running(2, 0.48, 4), running(1, 0.7, 2), running(1, 0.9, 2),
                                 running(4, 0.5, 16), waiting(),          waiting()};
  jobs[0].ends_soon = true;
  EXPECT_THAT(fapes_filter(jobs, 0, 1), ElementsAre(3));
  jobs[0].ends_soon = false;
  EXPECT_THAT(fapes_filter(jobs, 0, 1), ElementsAre(0, 3)) << "two devices do not serve three jobs";
}

TEST(FapesFilter, ADeviceThatServesTooFewIsNotEnough) {
  // Job 0 alone would give one device to three jobs.
  const std::vector<FilterJob> jobs = {running(1, 0.3, 2), running(6, 0.6, 12), waiting(),
                                       waiting()};
  EXPECT_THAT(fapes_filter(jobs, 0, 1), ElementsAre(0, 1));
}

TEST(FapesFilter, ARunningJobGrowsIntoFreeDevicesAlsoBesideOnesThatWait) {
  const std::vector<FilterJob> jobs = {running(4, 0.1, 16), waiting(), waiting()};
  EXPECT_THAT(fapes_filter(jobs, 20, 2), ElementsAre(0));
  const std::vector<FilterJob> content = {running(4, 1, 4), waiting(), waiting()};
  EXPECT_THAT(fapes_filter(content, 4, 2), IsEmpty());
}

TEST(FapesFilter, WithoutWaitingJobsARunningOneGrowsIntoFreeDevices) {
  const std::vector<FilterJob> jobs = {running(2, 0.5, 8), running(2, 1, 2)};
  EXPECT_THAT(fapes_filter(jobs, 6, 2), ElementsAre(0));
  EXPECT_THAT(fapes_filter(jobs, 0, 2), IsEmpty()) << "nothing to be had";
}

TEST(FapesFilter, NothingIsSelectedIfNothingIsBetter) {
  const std::vector<FilterJob> jobs = {running(2, 1, 2), running(2, 1, 2), waiting(8)};
  EXPECT_THAT(fapes_filter(jobs, 0, 2), IsEmpty());
}

TEST(FapesFilter, AJobWithoutItsLeastAchievesNothing) {
  FilterJob large = waiting(8);
  large.least = 6;
  const std::vector<FilterJob> jobs = {running(2, 0.4, 8), running(6, 0.9, 8), large};
  EXPECT_THAT(fapes_filter(jobs, 4, 2), ElementsAre(0));
  EXPECT_THAT(fapes_filter(jobs, 0, 2), IsEmpty());
}

TEST(FapesFilter, TheSelectedAreTheLowestAndNoneEndsSoon) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<FilterJob> jobs;
    for (uint64_t n = random.below(20); n > 0; --n) {
      FilterJob job = with_best(static_cast<int>(random.between(1, 16)));
      if (random.chance(0.6)) job.devices = static_cast<int>(random.between(1, 8));
      if (job.devices > 0) job.achievement = random.uniform();
      job.ends_soon = job.devices > 0 && random.chance(0.2);
      jobs.push_back(job);
    }
    const auto selected = fapes_filter(jobs, static_cast<int>(random.below(8)), 2);
    const std::set<size_t> set(selected.begin(), selected.end());
    ASSERT_EQ(set.size(), selected.size());
    double highest = 0;
    for (const size_t j : selected) {
      EXPECT_GT(jobs[j].devices, 0);
      EXPECT_FALSE(jobs[j].ends_soon);
      highest = std::max(highest, jobs[j].achievement);
    }
    for (size_t j = 0; j < jobs.size(); ++j) {
      const bool passed_over = jobs[j].devices > 0 && !jobs[j].ends_soon && !set.contains(j);
      if (passed_over && !selected.empty()) {
        EXPECT_GE(jobs[j].achievement, highest);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::policy
