// fapes_job_plan: one job's devices over the coming rounds, and how far a plan after the other is
// from the best of all.
#include "policy/plan/fapes_job_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/deal_table.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;
using testing::Pair;
using testing::SizeIs;

constexpr BatchRange kLargeBatch{.least = 6400, .most = 6400};

// A linear job of so many device-seconds.
DealtJob job_of(double device_seconds) {
  return {.step = step_linear(),
          .batch = kLargeBatch,
          .samples = static_cast<int64_t>(device_seconds * 1000)};
}

std::vector<int> workers_by_round(const Schedule& schedule) {
  std::vector<int> workers;
  for (const Placed& p : schedule) workers.push_back(workers_in(p));
  return workers;
}

// One job on a board of nodes, with prices from 60 to 20,000 s.
class FapesJobPlan : public testing::Test {
 protected:
  void nodes(const std::vector<int>& devices, const DealtJob& job) {
    table_.emplace(devices);
    table_->job("j", job);
    board.emplace(devices, 48);
    board->set_bounds(60, 20'000);
  }
  Contender& job() { return table_->table.jobs[0]; }
  std::optional<Schedule> plan(bool may_wait = true) {
    int largest = 0;
    for (size_t n = 0; n < board->nodes(); ++n) largest = std::max(largest, board->devices(n));
    return fapes_job_plan(*board, job(), fapes_sizes(job(), 2, largest), rules, may_wait);
  }
  std::vector<int> workers(bool may_wait = true) {
    const auto schedule = plan(may_wait);
    return schedule ? workers_by_round(*schedule) : std::vector<int>{};
  }

  FapesRules rules;
  std::optional<Board> board;

 private:
  std::optional<DealTable> table_;
};

TEST_F(FapesJobPlan, AShortJobHasAGranuleForARound) {
  nodes({8}, job_of(1000));
  EXPECT_THAT(plan(), Optional(ElementsAre(ElementsAre(Pair(0, 2)))));
}

TEST_F(FapesJobPlan, ALongJobOnAnEmptyClusterHasMany) {
  nodes({8, 8}, job_of(28'000));
  EXPECT_THAT(workers(), ElementsAre(16, 16, 16));
}

TEST_F(FapesJobPlan, UnderLoadOnlyDevicesThatArePutToUseAreTaken) {
  nodes({8}, {.step = StepModel{.beta_c = 0.001, .alpha_r = 0.02}, .samples = 7'000'000});
  EXPECT_GE(std::ranges::max(workers(false)), 4);
  board->add(Schedule(48, Placed{{0, 4}}));
  EXPECT_EQ(std::ranges::max(workers(false)), 2);
}

TEST_F(FapesJobPlan, ARestartTakesFromTheFirstRound) {
  nodes({4}, job_of(1200));
  EXPECT_THAT(workers(), ElementsAre(4)) << "two devices would need a second round";
  job().now = {{0, 2}};
  EXPECT_THAT(workers(), ElementsAre(2)) << "as it has these already";
}

TEST_F(FapesJobPlan, WaitsForACheaperRoundUnlessItMayNot) {
  nodes({4}, job_of(1000));
  board->add({{{0, 2}}});
  EXPECT_THAT(workers(), ElementsAre(0, 2)) << "a round is 600 s, two devices now are 2,000 s more";
  EXPECT_THAT(workers(false), ElementsAre(2));
}

TEST_F(FapesJobPlan, DoesNotPauseOnceItRuns) {
  nodes({2}, job_of(2000));
  board->add({{}, {{0, 2}}});
  EXPECT_THAT(workers(), ElementsAre(0, 0, 2, 2));
  EXPECT_EQ(plan(false), std::nullopt);
}

TEST_F(FapesJobPlan, GrowsWhereItIsWhenDevicesBecomeFree) {
  nodes({4}, job_of(5800));
  board->add({{{0, 2}}});
  EXPECT_THAT(workers(false), ElementsAre(2, 4, 4));
}

TEST_F(FapesJobPlan, ShrinksForAnotherPlan) {
  nodes({4}, job_of(5000));
  board->add({{}, {}, {{0, 2}}, {{0, 2}}});
  const auto schedule = plan(false);
  ASSERT_TRUE(schedule);
  EXPECT_TRUE(board->fits(*schedule));
  EXPECT_THAT(workers_by_round(*schedule), ElementsAre(4, 4, 2));
}

TEST_F(FapesJobPlan, OneNodeIsPreferredToCheaperPieces) {
  nodes({2, 2, 8}, {.step = step_within_a_node(), .samples = 2'000'000});
  board->set_bounds(60, 200);
  board->add({{{2, 4}}});
  EXPECT_THAT(plan(false), Optional(ElementsAre(ElementsAre(Pair(2, 4)))));
}

TEST_F(FapesJobPlan, NothingIfTheBoardIsFull) {
  nodes({4}, job_of(1000));
  board->add(Schedule(48, Placed{{0, 4}}));
  EXPECT_EQ(plan(), std::nullopt);
}

TEST_F(FapesJobPlan, AJobBeyondTheLastRoundIsBegun) {
  nodes({4}, job_of(4e6));
  const auto schedule = plan();
  ASSERT_TRUE(schedule);
  EXPECT_LE(schedule->size(), 48u);
  EXPECT_THAT((*schedule)[0], Not(IsEmpty()));
}

TEST_F(FapesJobPlan, EqualJobsSpreadOverTheNodes) {
  nodes({8, 8, 8, 8}, job_of(2000));
  for (int i = 0; i < 4; ++i) {
    const auto schedule = plan();
    ASSERT_TRUE(schedule);
    EXPECT_THAT((*schedule)[0], SizeIs(1));
    EXPECT_EQ((*schedule)[0][0].first, static_cast<size_t>(i));
    board->add(*schedule);
  }
}

// Plans one after the other on random boards: the work is done, nothing is held twice, no pauses.
TEST_F(FapesJobPlan, EveryPlanFitsAndCompletesTheWork) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<int> devices;
    for (uint64_t n = 1 + random.below(4); n > 0; --n)
      devices.push_back(static_cast<int>(random.between(1, 8)));
    Board shared(devices, 48);
    shared.set_bounds(60, 20'000);
    DealTable t(devices);
    const int largest = *std::ranges::max_element(devices);
    for (int j = 0; j < 6; ++j) {
      const DealtJob shape{.least = static_cast<int>(random.between(1, 3)),
                           .step = random.chance(0.5) ? step_within_a_node() : step_linear(),
                           .samples = random.between(10'000, 9'000'000)};
      const Contender& c = t.job(std::to_string(j), shape);
      const FapesSizes sizes = fapes_sizes(c, 2, largest);
      const auto schedule = fapes_job_plan(shared, c, sizes, rules, random.chance(0.5));
      if (!schedule) continue;
      ASSERT_TRUE(shared.fits(*schedule));
      shared.add(*schedule);
      double done = 0;
      bool began = false;
      for (const Placed& p : *schedule) {
        const int n = workers_in(p);
        EXPECT_TRUE(n >= c.least() || !began) << "it pauses";
        began |= n > 0;
        done += c.throughput(n, static_cast<int>(p.size())) * 600;
      }
      EXPECT_GE(done, std::min(c.left(), sizes.throughput * 600 * 24) * 0.999);
    }
  }
}

// All ways to have three jobs on two nodes of two granules, round by round: the least sum of the
// rounds in which they complete. Restarts are free, and jobs may pause.
class Exhaustive {
 public:
  explicit Exhaustive(std::vector<const Contender*> jobs) : jobs_(std::move(jobs)) {
    for (int a = 0; a <= 2; ++a)
      for (int b = 0; a + b <= 2; ++b)
        for (int c = 0; a + b + c <= 2; ++c) splits_.push_back({a, b, c});
  }

  int least_sum(int rounds) {
    std::vector<double> left;
    for (const Contender* c : jobs_) left.push_back(c->left());
    return least(0, rounds, left);
  }

 private:
  static constexpr int kNever = 1000;

  int least(int round, int rounds, const std::vector<double>& left) {
    if (std::ranges::all_of(left, [](double l) { return l <= 0; })) return 0;
    if (round == rounds) return kNever;
    const auto [at, is_new] = known_.try_emplace({round, left}, kNever);
    if (!is_new) return at->second;
    int best = kNever;
    for (const auto& a : splits_)
      for (const auto& b : splits_) {
        std::vector<double> then = left;
        int completed = 0;
        for (size_t j = 0; j < 3; ++j) {
          const int granules = a[j] + b[j], nodes = (a[j] > 0) + (b[j] > 0);
          if (left[j] <= 0 || granules == 0) continue;
          then[j] = std::max(0.0, left[j] - 600 * jobs_[j]->throughput(2 * granules, nodes));
          completed += then[j] <= 0;
        }
        best = std::min(best, completed * (round + 1) + least(round + 1, rounds, then));
      }
    known_[{round, left}] = best;
    return best;
  }

  std::vector<const Contender*> jobs_;
  std::vector<std::array<int, 3>> splits_;  // of a node's two granules among the jobs
  std::map<std::pair<int, std::vector<double>>, int> known_;
};

TEST(FapesQuality, PlansOneAfterTheOtherAreNearTheBestOfAll) {
  double ours = 0, best = 0;
  int cases = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    DealTable t({4, 4});
    std::vector<const Contender*> jobs;
    for (const char* name : {"a", "b", "c"}) {
      DealtJob shape = job_of(static_cast<double>(random.between(500, 6000)));
      if (random.chance(0.5)) shape.step = step_within_a_node(), shape.batch = {64, 64};
      t.job(name, shape);
    }
    std::vector<FapesSizes> sizes;
    std::vector<const FapesSizes*> all_sizes;
    for (const Contender& c : t.table.jobs) sizes.push_back(fapes_sizes(c, 2, 4));
    for (size_t j = 0; j < 3; ++j) {
      jobs.push_back(&t.table.jobs[j]);
      all_sizes.push_back(&sizes[j]);
    }
    const int least = Exhaustive(jobs).least_sum(4);
    if (least >= 1000) continue;  // not within four rounds
    Board board({4, 4}, 12);
    const FapesBounds bounds = fapes_bounds(jobs, all_sizes);
    board.set_bounds(bounds.least, bounds.most);
    size_t sum = 0;
    for (size_t j = 0; j < 3; ++j) {
      const auto schedule = fapes_job_plan(board, *jobs[j], sizes[j], {.restart = Nanos(0)}, true);
      ASSERT_TRUE(schedule);
      ASSERT_TRUE(board.fits(*schedule));
      board.add(*schedule);
      sum += schedule->size();
    }
    ASSERT_GE(sum, static_cast<size_t>(least));
    ours += static_cast<double>(sum);
    best += least;
    ++cases;
  }
  RecordProperty("over_best", std::to_string(ours / best));
  ASSERT_GT(cases, 10);
  EXPECT_LE(ours, 1.25 * best) << "over " << cases << " cases";
}

}  // namespace
}  // namespace sluice::policy
