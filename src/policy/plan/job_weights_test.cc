// What the progress of jobs is worth, by what is left of them.
#include "policy/plan/job_weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/job_cluster.h"

namespace sluice::policy {
namespace {

class JobWeights : public testing::Test {
 protected:
  void job(const std::string& name, int64_t samples, int64_t done = 0) {
    cluster.job(name);
    JobView& state = cluster.state(name);
    state.step = StepModel{.alpha_c = 1};
    state.batch = 10;
    state.samples = samples;
    state.done = done;
  }
  std::vector<double> weights(double exponent) {
    std::vector<Job> jobs;
    for (const FunctionView& view : cluster.now.functions) jobs.push_back({&view, nullptr, {}, {}});
    return job_weights(jobs, std::vector(jobs.size(), exponent));
  }
  JobCluster cluster{4};
};

TEST_F(JobWeights, TheJobThatEndsSoonestCountsMost) {
  job("a", 1000);
  job("b", 9000);
  job("c", 4000);
  const std::vector<double> w = weights(0.5);
  EXPECT_NEAR(w[0] / w[2], 2, 1e-9);
  EXPECT_NEAR(w[0] / w[1], 3, 1e-9);
  for (const double equal : weights(0)) EXPECT_EQ(equal, 1);
}

TEST_F(JobWeights, WhatIsLeftCounts) {
  job("a", 1000);
  job("b", 9000, 8500);
  EXPECT_GT(weights(0.5)[1], weights(0.5)[0]);
}

TEST_F(JobWeights, OneOfUnknownLengthCountsAsTheMedian) {
  job("a", 1000);
  job("b", 0);
  job("c", 4000);
  job("d", 9000);
  EXPECT_EQ(weights(0.5)[1], weights(0.5)[2]);
}

TEST_F(JobWeights, WhereNoneIsKnownAllCountOnce) {
  job("a", 0);
  job("b", 0);
  EXPECT_EQ(weights(0.5), (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace sluice::policy
