// How `planned` makes good what a client was deprived of, event by event. Shares over time are in
// arbiters/timeline_test.cc and arbiters/property_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "arbiters/arbiter.h"

namespace sluice::policy {
namespace {

using testing::_;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr Time kStart{std::chrono::hours(1)};  // at a window's end
constexpr ClientId kVictim = 1, kCulprit = 2, kOwner = 3;

// Windows of 20 ms. The victim's phase is the first 4 ms of each, the owner's 4 ms from 10 ms on,
// the culprit's 2 ms from 18 ms on.
class PlannedEvents : public testing::Test {
 protected:
  PlannedEvents() {
    add({.id = kVictim, .sm = {600}, .quota = {{200}, {1000}}});
    add({.id = kCulprit, .sm = {500}, .quota = {{100}, {1000}}, .position = {{500}, {900}}});
    add({.id = kOwner, .sm = {1000}, .quota = {{200}, {1000}}, .position = {{0}, {500}}});
  }

  static Time ms(double t) { return kStart + from_millis(t); }
  void add(const ShareClient& c) { ASSERT_TRUE(arbiter_->admit(c, kStart).ok()); }
  void want(ClientId id, double t) { arbiter_->want(id, true, ms(t)); }
  void rest(ClientId id, double t) { arbiter_->want(id, false, ms(t)); }
  void used(ClientId id, double busy_ms, double t) {
    arbiter_->charge(id, from_millis(busy_ms), ms(t), ms(t));
  }
  void drained(ClientId id, double t) { arbiter_->drained(id, ms(t)); }
  // Returns the budgets in milliseconds of those that one step grants. What it revokes goes on,
  // until the test says that it has drained.
  std::map<ClientId, double> granted(double t) {
    std::map<ClientId, double> budgets;
    for (const Grant& g : arbiter_->step(ms(t)).grant) budgets[g.client] = millis(g.budget);
    return budgets;
  }
  // The culprit's operator begins at 18 ms and ends at `until`, in its own phase; from the window's
  // end at 20 ms on the victim waits for it, while its phase lasts.
  void overrun(double until) {
    want(kCulprit, 18);
    ASSERT_THAT(granted(18), ElementsAre(Pair(kCulprit, _)));
    want(kVictim, 20);
    ASSERT_THAT(granted(20), IsEmpty());
    for (double t = 20; t < until; t += 20) {
      granted(t);
      granted(t + 4);  // its phase has ended
    }
    used(kCulprit, until - 18, until);
    rest(kCulprit, until);
    drained(kCulprit, until);
  }

  std::unique_ptr<Arbiter> arbiter_ = *make_arbiter("planned", {});
};

TEST_F(PlannedEvents, ADeficitOfLessThanAWindowsRequestLeavesThePlanAsItIs) {
  overrun(39);
  granted(39);
  used(kVictim, 1, 40);  // of its 4
  granted(40);           // 3 are carried over
  rest(kVictim, 41);
  granted(41);
  drained(kVictim, 41);
  want(kOwner, 50);
  want(kVictim, 50);
  EXPECT_THAT(granted(50), ElementsAre(Pair(kOwner, _)));
}

// It was deprived of three phases of 4 ms and has used 3 ms after them: of the 9 that it lacks, 5
// come before the plan. The rest is paid in what the plan leaves.
TEST_F(PlannedEvents, ADeficitIsPaidBeforeThePlanOnlyBeyondAWindowsRequest) {
  overrun(77);
  want(kOwner, 77);
  granted(77);
  used(kVictim, 3, 80);
  EXPECT_NEAR(granted(80)[kVictim], 5, 0.1);
  used(kVictim, 5.1, 86);
  drained(kVictim, 86);
  EXPECT_THAT(granted(90), ElementsAre(Pair(kOwner, _)));
}

// What it needs is free; another long operator of its would be in the victim's way again.
TEST_F(PlannedEvents, ADebtorBorrowsNothingWhileAnotherIsDeprived) {
  overrun(77);
  add({.id = kCulprit, .sm = {300}, .quota = {{100}, {1000}}, .position = {{700}, {900}}});
  EXPECT_THAT(granted(77), ElementsAre(Pair(kVictim, _)));
  want(kCulprit, 78);
  EXPECT_THAT(granted(78), IsEmpty());
  used(kVictim, 2, 79);
  rest(kVictim, 79);
  EXPECT_THAT(granted(81), Contains(Pair(kCulprit, _)))
      << "of the clients that work none is deprived";
}

}  // namespace
}  // namespace sluice::policy
