// MPS-l and MPS-r: each client has its fixed share, whatever other clients exist.
#include "arbiters/fixed.h"

#include <gtest/gtest.h>

#include "tests/support/arbiter_simulation.h"

namespace sluice::policy {
namespace {

constexpr Time kStart{std::chrono::hours(1)};

ShareClient client(ClientId id, int sm, int request, int limit) {
  return {.id = id, .sm = {sm}, .quota = {{request}, {limit}}};
}

double share_of(const Simulation& device, ClientId id) {
  return seconds(device.used(id, Seconds(1), Seconds(11))) / 10;
}

struct Expected {
  const char* arbiter;
  double first, second;
};
class FixedShares : public testing::TestWithParam<Expected> {};
INSTANTIATE_TEST_SUITE_P(, FixedShares,
                         testing::Values(Expected{"share_fixed_limit", 0.6, 0.9},
                                         Expected{"share_fixed_request", 0.3, 0.4}),
                         [](const auto& info) { return std::string(info.param.arbiter); });

TEST_P(FixedShares, AreTheSameAloneAndTogether) {
  const ShareClient first = client(1, 500, 300, 600), second = client(2, 500, 400, 900);
  Simulation alone(GetParam().arbiter), together(GetParam().arbiter);
  ASSERT_TRUE(alone.add(first, greedy(Micros(250))).ok());
  ASSERT_TRUE(together.add(first, greedy(Micros(250))).ok());
  ASSERT_TRUE(together.add(second, greedy(Micros(250))).ok());
  alone.run(Seconds(11));
  together.run(Seconds(11));
  EXPECT_NEAR(share_of(alone, 1), GetParam().first, 0.005);
  EXPECT_EQ(share_of(together, 1), share_of(alone, 1));
  EXPECT_NEAR(share_of(together, 2), GetParam().second, 0.005);
}

TEST(Fixed, LimitsBeyondTheDeviceAreSettledByIt) {
  Simulation device("share_fixed_limit");
  ASSERT_TRUE(device.add(client(1, 1000, 300, 600), greedy(Micros(250))).ok());
  ASSERT_TRUE(device.add(client(2, 1000, 400, 900), greedy(Micros(250))).ok());
  device.run(Seconds(11));
  EXPECT_NEAR(share_of(device, 1), 0.5, 0.005);
  EXPECT_NEAR(share_of(device, 2), 0.5, 0.005);
}

// The slices under MPS: a share of SMs, all of the time.
TEST(Fixed, InSpacePermitsAreParkedAndNobodyIsEverRevoked) {
  for (const auto kind : {FixedArbiter::Kind::kLimit, FixedArbiter::Kind::kRequest}) {
    FixedArbiter arbiter(kind, {});
    for (ClientId id = 1; id <= 5; ++id) {
      // limits in space may add up to more than the device
      ASSERT_TRUE(arbiter.admit(client(id, 300, id <= 3 ? 1000 : 10, 1000), kStart).ok());
      arbiter.want(id, true, kStart);
    }
    size_t grants = 0;
    for (Time now = kStart; now < kStart + Seconds(1); now += Millis(10)) {
      for (ClientId id = 1; id <= 5; ++id) arbiter.charge(id, Millis(1), now, now);
      const Permits permits = arbiter.step(now);
      EXPECT_TRUE(permits.revoke.empty());
      grants += permits.grant.size();
    }
    EXPECT_GE(grants, 5u);
  }
}

TEST(Fixed, RequestsThatFillMoreThanTheDeviceAreRefusedLimitsAreNot) {
  FixedArbiter arbiter(FixedArbiter::Kind::kLimit, {});
  EXPECT_TRUE(arbiter.admit(client(1, 1000, 500, 1000), kStart).ok());
  EXPECT_TRUE(arbiter.admit(client(2, 1000, 500, 1000), kStart).ok());
  EXPECT_FALSE(arbiter.admit(client(3, 1000, 1, 1000), kStart).ok());
}

}  // namespace
}  // namespace sluice::policy
