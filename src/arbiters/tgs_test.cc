// TGS over minutes: what opportunistic clients get beside productive ones.
#include <gtest/gtest.h>

#include "tests/support/arbiter_simulation.h"

namespace sluice::policy {
namespace {

constexpr ClientId kProductive = 1, kOpportunistic = 2;

ShareClient client(ClientId id, int request, int limit, bool has_slo) {
  return {.id = id, .sm = {1000}, .quota = {{request}, {limit}}, .has_slo = has_slo};
}

class Tgs : public testing::Test {
 protected:
  void add(const Behaviour& productive) {
    ASSERT_TRUE(device_.add(client(kProductive, 500, 1000, true), productive).ok());
    ASSERT_TRUE(device_.add(client(kOpportunistic, 500, 1000, false), greedy(kOp)).ok());
  }
  double share(ClientId id, Seconds from, Seconds to) {
    return seconds(device_.used(id, from, to)) / static_cast<double>((to - from).count());
  }

  static constexpr Nanos kOp = Micros(500);
  Simulation device_{"tgs"};
};

TEST_F(Tgs, WithoutProductiveClientsTheOthersHaveNoBound) {
  ASSERT_TRUE(device_.add(client(kOpportunistic, 0, 1000, false), greedy(kOp)).ok());
  device_.run(Seconds(10));
  EXPECT_NEAR(share(kOpportunistic, Seconds(0), Seconds(10)), 1, 0.01);
}

TEST_F(Tgs, WhileTheProductiveOneIsMeasuredTheOthersStandStill) {
  add(greedy(kOp));
  device_.run(Seconds(30));
  EXPECT_NEAR(share(kOpportunistic, Seconds(6), Seconds(25)), 0, 0.001);
}

TEST_F(Tgs, ABusyProductiveClientKeepsAlmostAll) {
  add(greedy(kOp));
  device_.run(Seconds(600));
  EXPECT_GE(share(kProductive, Seconds(60), Seconds(600)), 0.95);
  EXPECT_GT(share(kOpportunistic, Seconds(60), Seconds(600)), 0);
}

// Half of its time is on the host: the other half can be had.
TEST_F(Tgs, OpportunisticClientsFindWhatIsLeft) {
  Behaviour half = greedy(kOp);
  half.pause = kOp;
  add(half);
  device_.run(Seconds(600));
  EXPECT_GE(share(kProductive, Seconds(300), Seconds(600)), 0.4);
  EXPECT_GE(share(kOpportunistic, Seconds(300), Seconds(600)), 0.005);
}

TEST_F(Tgs, WithTheLastProductiveClientTheBoundGoes) {
  add(greedy(kOp));
  device_.at(Seconds(60), [&] { device_.remove(kProductive); });
  device_.run(Seconds(62));
  EXPECT_NEAR(share(kOpportunistic, Seconds(61), Seconds(62)), 1, 0.01);
}

}  // namespace
}  // namespace sluice::policy
