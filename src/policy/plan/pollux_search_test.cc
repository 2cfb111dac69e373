// pollux_search: what it finds is possible, and never worse than what it began with.
#include "policy/plan/pollux_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/deal_table.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;

// Jobs of all kinds on a few nodes, from a seed.
struct RandomProblem {
  explicit RandomProblem(uint64_t seed) : random(seed), table(nodes()) {
    problem.devices = table.table.devices;
    const uint64_t jobs = 1 + random.below(8);
    for (uint64_t j = 0; j < jobs; ++j)
      table.job(std::to_string(j), {.step = j % 2 == 0 ? step_within_a_node() : step_best_alone(),
                                    .batch = {.least = 64, .most = 1024},
                                    .noise = 500});
    for (const Contender& c : table.table.jobs) {
      PolluxJob& job = problem.jobs.emplace_back(PolluxJob{.job = &c});
      job.least = static_cast<int>(random.between(1, 3));
      job.most = static_cast<int>(random.between(job.least, 12));
      job.changed = random.uniform();
    }
    problem.now.resize(jobs * problem.devices.size());
    problem.most_nodes = static_cast<int>(random.between(1, 4));
  }

  std::vector<int> nodes() {
    std::vector<int> devices(1 + random.below(6));
    for (int& d : devices) d = static_cast<int>(random.below(9));
    return devices;
  }
  Allocation any() {
    Allocation a(problem.now.size());
    for (uint16_t& cell : a)
      cell = static_cast<uint16_t>(random.chance(0.5) ? random.below(10) : 0);
    return a;
  }

  Random random;
  DealTable table;
  PolluxProblem problem;
};

void expect_possible(const PolluxProblem& p, const Allocation& a) {
  const size_t nodes = p.devices.size();
  std::vector<int> used(nodes), spanning(nodes);
  for (size_t j = 0; j < p.jobs.size(); ++j) {
    const std::span<const uint16_t> row(&a[j * nodes], nodes);
    const int workers = std::accumulate(row.begin(), row.end(), 0);
    const auto on = std::ranges::count_if(row, [](uint16_t cell) { return cell > 0; });
    EXPECT_TRUE(workers == 0 || workers >= p.jobs[j].least) << j;
    EXPECT_LE(workers, p.jobs[j].most) << j;
    EXPECT_LE(on, p.most_nodes) << j;
    for (size_t n = 0; n < nodes; ++n) {
      used[n] += row[n];
      spanning[n] += on > 1 && row[n] > 0;
    }
  }
  for (size_t n = 0; n < nodes; ++n) {
    EXPECT_LE(used[n], p.devices[n]) << n;
    EXPECT_LE(spanning[n], 1) << n;
  }
}

TEST(PolluxSearch, ARepairedAllocationIsPossibleAndStaysAsItIs) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    RandomProblem r(seed);
    PolluxSearch search(r.problem, r.random);
    Allocation a = r.any();
    search.repair(a);
    expect_possible(r.problem, a);
    Allocation again = a;
    search.repair(again);
    EXPECT_EQ(again, a);
    search.mutate(a);
    search.repair(a);
    expect_possible(r.problem, a);
  }
}

TEST(PolluxSearch, TheFirstJobKeepsANodeThatTwoSpan) {
  DealTable t({4, 4, 4});
  PolluxProblem p{.devices = t.table.devices};
  for (const char* name : {"a", "b", "c"}) t.job(name, {});
  for (const Contender& c : t.table.jobs) p.jobs.push_back({.job = &c, .most = 8});
  p.now.resize(9);
  Random random(1);
  Allocation a{2, 2, 0,   // spans two nodes
               0, 2, 2,   // has to leave the second
               0, 1, 0};  // of one node
  PolluxSearch(p, random).repair(a);
  EXPECT_THAT(a, ElementsAre(2, 2, 0, 0, 0, 2, 0, 1, 0));
}

TEST(PolluxSearch, FitnessIsTheHarmonicMeanOfSpeedUps) {
  DealTable t({4, 4});
  for (const char* name : {"a", "b"}) t.job(name, {.step = step_linear()});
  PolluxProblem p{.devices = {4, 4}, .now = {1, 0, 0, 1}};
  const double one = t.table.jobs[0].goodput(1, 1);
  for (const Contender& c : t.table.jobs)
    p.jobs.push_back({.job = &c, .most = 8, .speedup = 1 / one, .changed = 0.5});
  Random random(1);
  const PolluxSearch search(p, random);
  EXPECT_NEAR(search.fitness({1, 0, 0, 1}), 1, 0.002);
  EXPECT_NEAR(search.fitness({4, 0, 0, 1}), 2 / (1 / 2.0 + 1), 0.002) << "half of 4, and 1";
  EXPECT_NEAR(search.fitness({4, 0, 0, 0}), 2 / (1 / 2.0 + 1000), 1e-5) << "one has nothing";
}

TEST(PolluxSearch, TheBestNeverBecomesWorseAndAllThatLiveArePossible) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    RandomProblem r(seed);
    PolluxSearch search(r.problem, r.random);
    const Allocation begin = r.any();
    const auto found = search.evolve({begin}, 20, 30);
    ASSERT_FALSE(found.all.empty());
    EXPECT_LE(found.all.size(), 20u);
    EXPECT_EQ(found.best.size(), 31u);
    EXPECT_TRUE(std::ranges::is_sorted(found.best));
    EXPECT_EQ(search.fitness(found.all[0]), found.best.back());
    EXPECT_GE(found.best.front(), search.fitness(r.problem.now));
    for (const Allocation& a : found.all) expect_possible(r.problem, a);
  }
}

// Every cell from 0 to 2, for two jobs on two nodes of two devices, and for three.
TEST(PolluxSearch, FindsTheBestOfASmallCluster) {
  for (const size_t jobs : {2, 3})
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(seed);
      Random random(seed);
      DealTable t({2, 2});
      for (size_t j = 0; j < jobs; ++j)
        t.job(std::to_string(j), {.step = StepModel{.beta_c = 0.002 * random.uniform(),
                                                    .alpha_r = 0.02 * random.uniform(),
                                                    .alpha_n = 0.1 * random.uniform()}});
      PolluxProblem p{.devices = {2, 2}, .now = Allocation(2 * jobs)};
      for (const Contender& c : t.table.jobs)
        p.jobs.push_back({.job = &c, .most = 4, .speedup = 1 / c.goodput(1, 1)});
      PolluxSearch search(p, random);
      double best = 0;
      Allocation a(2 * jobs);
      for (int all = 0; all < std::pow(3, a.size()); ++all) {
        int rest = all;
        for (uint16_t& cell : a) cell = static_cast<uint16_t>(rest % 3), rest /= 3;
        Allocation possible = a;
        search.repair(possible);
        if (possible == a) best = std::max(best, search.fitness(a));
      }
      EXPECT_NEAR(search.evolve({}, 100, 100).best.back(), best, 1e-12);
    }
}

}  // namespace
}  // namespace sluice::policy
