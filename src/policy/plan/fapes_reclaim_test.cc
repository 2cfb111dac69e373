// fapes_reclaim: which loaned servers go back.
#include "policy/plan/fapes_reclaim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <string>

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr size_t A = 0, B = 1, C = 2, D = 3;

std::vector<size_t> servers_of(const std::vector<ReclaimedServer>& reclaimed) {
  std::vector<size_t> servers;
  for (const ReclaimedServer& r : reclaimed) servers.push_back(r.server);
  return servers;
}

// The fewest jobs that so many servers cost, over all choices.
int fewest_preempted(const std::vector<LoanedServer>& servers, int wanted) {
  int fewest = 1 << 20;
  for (uint32_t choice = 0; choice < 1u << servers.size(); ++choice) {
    if (std::popcount(choice) != wanted) continue;
    std::set<size_t> jobs;
    for (size_t s = 0; s < servers.size(); ++s)
      if (choice >> s & 1) jobs.insert(servers[s].jobs.begin(), servers[s].jobs.end());
    fewest = std::min(fewest, static_cast<int>(jobs.size()));
  }
  return fewest;
}

std::vector<LoanedServer> random_loans(Random& random, size_t most) {
  std::vector<LoanedServer> servers(1 + random.below(most));
  const size_t jobs = 1 + random.below(2 * servers.size());
  for (size_t j = 0; j < jobs; ++j) {
    std::set<size_t> on;
    for (uint64_t n = 1 + random.below(4); n > 0; --n) on.insert(random.below(servers.size()));
    for (const size_t s : on) servers[s].jobs.push_back(j);
  }
  return servers;
}

// The paper's Fig. 6(a): servers 1 and 2 hold jobs A and B, so each has a cost and a gain of 2.
TEST(FapesReclaim, ServersOfOneSetOfJobsGoTogether) {
  const std::vector<LoanedServer> servers = {{{A, B}}, {{A, B}}, {{A, C}}, {{B, C, D}}};
  const auto reclaimed = reclaim_fapes(servers, 2);
  EXPECT_THAT(servers_of(reclaimed), ElementsAre(0, 1));
  EXPECT_EQ(reclaimed[0].cost, 2);
  EXPECT_EQ(reclaimed[0].gain, 2);
  EXPECT_EQ(reclaimed[1].cost, 0) << "its jobs are preempted already";
  EXPECT_EQ(preempted_jobs(servers, reclaimed), 2);
}

// As Fig. 6(b), whose text has the outcome alone: servers 2 and 3. Server 1 costs as much as the
// second, but frees only itself.
TEST(FapesReclaim, ALargerGainComesBeforeAnEqualCost) {
  const std::vector<LoanedServer> servers = {{{A, B}}, {{C, D}}, {{C}}, {{A, C}}};
  const auto reclaimed = reclaim_fapes(servers, 2);
  EXPECT_THAT(servers_of(reclaimed), ElementsAre(1, 2));
  EXPECT_EQ(preempted_jobs(servers, reclaimed), 2);
}

TEST(FapesReclaim, AGainBeyondWhatIsWantedIsNoGain) {
  const std::vector<LoanedServer> servers = {{{A}}, {{A}}, {{B, C}}};
  EXPECT_THAT(servers_of(reclaim_fapes(servers, 1)), ElementsAre(2));
  EXPECT_THAT(servers_of(reclaim_fapes(servers, 2)), ElementsAre(0, 1));
}

TEST(FapesReclaim, WithoutAFittingGainTheLeastCostIsTaken) {
  const std::vector<LoanedServer> servers = {{{A, B}}, {{A, B}}, {{C}}, {{C}}};
  EXPECT_THAT(servers_of(reclaim_fapes(servers, 1)), ElementsAre(2));
}

TEST(FapesReclaim, FreeServersComeFirst) {
  const std::vector<LoanedServer> servers = {{{A}}, {{}}, {{B}}, {{}}};
  EXPECT_THAT(servers_of(reclaim_fapes(servers, 3)), ElementsAre(1, 3, 0));
}

TEST(FapesReclaim, OfEqualServersTheOneThatLosesLeast) {
  const std::vector<LoanedServer> servers = {{{A}, 16}, {{B}, 4}, {{C}, 8}};
  EXPECT_THAT(servers_of(reclaim_fapes(servers, 2)), ElementsAre(1, 2));
}

TEST(FapesReclaim, AllIfMoreAreWantedAndNoneOfNone) {
  EXPECT_THAT(reclaim_fapes({}, 3), IsEmpty());
  const std::vector<LoanedServer> servers = {{{A}}, {{A}}};
  EXPECT_THAT(servers_of(reclaim_fapes(servers, 5)), UnorderedElementsAre(0, 1));
  EXPECT_THAT(reclaim_fapes(servers, 0), IsEmpty());
}

TEST(FapesReclaim, LyraTakesTheSmallestPartsOfJobs) {
  // A spans four servers, B one.
  const std::vector<LoanedServer> servers = {{{B}}, {{A}}, {{A}}};
  EXPECT_THAT(servers_of(reclaim_lyra(servers, 2, std::vector<int>{4, 1})), ElementsAre(1, 2));
  const auto first = reclaim_lyra(servers, 1, std::vector<int>{4, 1});
  EXPECT_EQ(first.at(0).cost, 0.25);
}

TEST(FapesReclaim, OneWayTakesAnyByTheGenerator) {
  const std::vector<LoanedServer> servers(8, LoanedServer{{A}});
  const auto draw = [&](uint64_t seed) {
    Random random(seed);
    return servers_of(reclaim_one_way(servers, 4, random));
  };
  EXPECT_EQ(draw(1), draw(1));
  std::set<std::vector<size_t>> outcomes;
  for (uint64_t seed = 1; seed <= 10; ++seed) outcomes.insert(draw(seed));
  EXPECT_THAT(outcomes, SizeIs(testing::Gt(5)));
}

// Up to 16 servers: never fewer preempted jobs than the best choice, and few more on the whole.
TEST(FapesReclaim, IsNearTheBestChoice) {
  double ours = 0, best = 0, any = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const std::vector<LoanedServer> servers = random_loans(random, seed % 20 == 0 ? 16 : 10);
    const int wanted = static_cast<int>(random.below(servers.size() + 1));
    const auto reclaimed = reclaim_fapes(servers, wanted);
    const std::vector<size_t> chosen = servers_of(reclaimed);
    ASSERT_EQ(std::set<size_t>(chosen.begin(), chosen.end()).size(), static_cast<size_t>(wanted));
    double costs = 0;
    for (const ReclaimedServer& r : reclaimed) costs += r.cost;
    ASSERT_EQ(costs, preempted_jobs(servers, reclaimed)) << "each job is counted once";
    const int fewest = fewest_preempted(servers, wanted);
    ASSERT_GE(costs, fewest);
    ours += costs;
    best += fewest;
    any += preempted_jobs(servers, reclaim_one_way(servers, wanted, random));
  }
  RecordProperty("fapes_over_best", std::to_string(ours / best));
  RecordProperty("one_way_over_best", std::to_string(any / best));
  EXPECT_LE(ours, 1.1 * best) << "any servers: " << any / best;
  EXPECT_LT(ours, any);
}

}  // namespace
}  // namespace sluice::policy
