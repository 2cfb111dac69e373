#include "policy/plan/job_sizes.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/random.h"

namespace sluice::policy {
namespace {

using Options = std::vector<std::vector<JobSize>>;

double value_of(const Options& jobs, const std::vector<size_t>& chosen) {
  double sum = 0;
  for (size_t j = 0; j < jobs.size(); ++j) sum += jobs[j][chosen[j]].value;
  return sum;
}

TEST(JobSizes, FourAtOnceWhereOneMoreGainsNothing) {
  const Options jobs{{{1, 1.0}, {2, 0.9}, {4, 2.5}}, {{1, 1.0}, {2, 1.2}, {3, 1.3}}};
  EXPECT_EQ(best_sizes(jobs, 5), (std::vector<size_t>{2, 0}));
  EXPECT_EQ(best_sizes(jobs, 4), (std::vector<size_t>{0, 2}));
}

TEST(JobSizes, WhatDoesNotFitHasNoPlan) {
  EXPECT_TRUE(best_sizes(Options{{{2, 1.0}}, {{2, 1.0}}}, 3).empty());
}

TEST(JobSizes, OfEqualPlansTheSmaller) {
  EXPECT_EQ(best_sizes(Options{{{1, 1.0}, {2, 1.0}}}, 4), (std::vector<size_t>{0}));
}

TEST(JobSizes, AreTheBestOfAll) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    Options jobs(1 + random.next() % 4);
    for (auto& sizes : jobs)
      for (int k = static_cast<int>(random.next() % 2); k < 6; ++k)
        if (sizes.empty() || random.next() % 2 == 0) sizes.push_back({k, random.uniform()});
    const int devices = static_cast<int>(random.next() % 12);
    double best = -1;
    std::vector<size_t> chosen(jobs.size());
    const std::function<void(size_t, int)> choose = [&](size_t job, int left) {
      if (left < 0) return;
      if (job == jobs.size()) return void(best = std::max(best, value_of(jobs, chosen)));
      for (size_t s = 0; s < jobs[job].size(); ++s) {
        chosen[job] = s;
        choose(job + 1, left - jobs[job][s].devices);
      }
    };
    choose(0, devices);
    const auto found = best_sizes(jobs, devices);
    ASSERT_EQ(found.empty(), best < 0) << "seed " << seed;
    if (found.empty()) continue;
    EXPECT_NEAR(value_of(jobs, found), best, 1e-9) << "seed " << seed;
  }
}

TEST(JobSizes, AreFewAndHoldThePresentOneTheLargestAndWholeNodes) {
  EXPECT_EQ(sizes_between(1, 17, 0, 4), (std::vector{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16, 17}));
  EXPECT_EQ(sizes_between(2, 12, 11, 1), (std::vector{2, 3, 4, 5, 6, 7, 8, 10, 11, 12}));
  EXPECT_EQ(sizes_between(20, 24, 0, 8), (std::vector{20, 24}));
  EXPECT_LT(sizes_between(1, 8000, 0, 8).size(), 50u);
  EXPECT_TRUE(sizes_between(4, 3, 0, 1).empty());
}

}  // namespace
}  // namespace sluice::policy
