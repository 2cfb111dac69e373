// FaST-GShare's tokens: several clients hold one at once while their sm fit, and no more.
#include "arbiters/multi_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Time kStart{std::chrono::hours(1)};

class MultiToken : public testing::Test {
 protected:
  // Returns the clients that hold a token once all want one.
  std::vector<ClientId> holders(const std::vector<int>& sms) {
    ClientId id = 0;
    for (const int sm : sms) {
      ++id;
      EXPECT_TRUE(arbiter_.admit({.id = id, .sm = {sm}, .quota = {{300}, {500}}}, kStart).ok());
      arbiter_.want(id, true, kStart);
    }
    return step(Nanos(0));
  }
  std::vector<ClientId> step(Nanos at) {
    const Permits permits = arbiter_.step(kStart + at);
    EXPECT_THAT(permits.revoke, IsEmpty());
    std::vector<ClientId> ids;
    for (const Grant& grant : permits.grant) ids.push_back(grant.client);
    return ids;
  }
  // The client used its token up.
  void spend(ClientId id, Nanos until) {
    arbiter_.charge(id, Millis(6), kStart + until, kStart + until);
    arbiter_.drained(id, kStart + until);
  }

  MultiTokenArbiter arbiter_{ArbiterConfig()};
};

TEST_F(MultiToken, ClientsWhoseSmFitHoldAtOnceAndAThirdWaits) {
  EXPECT_THAT(holders({600, 400, 500}), ElementsAre(1, 2));
  spend(2, Millis(6));
  EXPECT_THAT(step(Millis(6)), IsEmpty()) << "600 and 500 do not fit";
  spend(1, Millis(7));
  EXPECT_THAT(step(Millis(7)), ElementsAre(3)) << "1 is next, and does not fit";
}

TEST_F(MultiToken, NarrowerOnesDoNotOvertakeTheFirstThatDoesNotFit) {
  EXPECT_THAT(holders({600, 500, 400}), ElementsAre(1));
}

// As on a device that cannot be cut in space.
TEST_F(MultiToken, OnTheWholeDeviceTheyTakeTurns) {
  EXPECT_THAT(holders({1000, 1000, 1000}), ElementsAre(1));
  spend(1, Millis(6));
  EXPECT_THAT(step(Millis(6)), ElementsAre(2));
}

}  // namespace
}  // namespace sluice::policy
