// What `deadline` adds to `planned`, event by event and over time; that it keeps planned's property
// is in arbiters/packing_test.cc and arbiters/property_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/arbiter_simulation.h"

namespace sluice::policy {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

constexpr Time kStart{std::chrono::hours(1)};  // at a window's end
constexpr Nanos kOp = Micros(500);

ShareClient client(ClientId id, int sm, int request, int limit, Position at = {}) {
  return {.id = id, .sm = {sm}, .quota = {{request}, {limit}}, .position = at, .has_slo = true};
}

// A lane of two: by the plan 1 has the first half of each window of 20 ms, 2 the second.
class DeadlineTest : public testing::Test {
 protected:
  DeadlineTest() {
    add(client(1, 1000, 500, 1000));
    add(client(2, 1000, 500, 1000, {{0}, {500}}));
  }

  Time ms(double t) const { return kStart + from_millis(t); }
  void add(const ShareClient& c) { ASSERT_TRUE(arbiter_->admit(c, kStart).ok()); }
  void want(ClientId id, double t) { arbiter_->want(id, true, ms(t)); }
  void due(ClientId id, double due, double t) { arbiter_->deadline(id, ms(due), ms(t)); }
  void used(ClientId id, double busy_ms, double t) {
    arbiter_->charge(id, from_millis(busy_ms), ms(t), ms(t));
  }
  // Revocations are drained at once; returns the clients granted in the end.
  std::vector<ClientId> granted(double t) {
    std::vector<ClientId> who;
    for (int i = 0; i < 2; ++i) {
      const Permits permits = arbiter_->step(ms(t));
      for (const ClientId id : permits.revoke) arbiter_->drained(id, ms(t));
      for (const Grant& g : permits.grant) who.push_back(g.client);
    }
    return who;
  }

  std::unique_ptr<Arbiter> arbiter_ = *make_arbiter("deadline", {});
};

TEST_F(DeadlineTest, WithoutDeadlinesAPhaseIsItsOwners) {
  want(1, 0);
  want(2, 0);
  EXPECT_THAT(granted(0), ElementsAre(1));
  used(1, 10, 10);
  arbiter_->drained(1, ms(10));
  EXPECT_THAT(granted(10), ElementsAre(2));
}

TEST_F(DeadlineTest, TheLeastTimeLeftRunsFirstAndTheOwnerGetsTheOthersPhase) {
  want(1, 0);
  want(2, 0);
  due(1, 60, 0);
  due(2, 30, 0);
  EXPECT_THAT(granted(0), ElementsAre(2)) << "in the phase of 1";
  used(2, 10, 10);
  arbiter_->drained(2, ms(10));
  EXPECT_THAT(granted(10), ElementsAre(1)) << "in the phase of 2";
}

TEST_F(DeadlineTest, AMoreUrgentRequestInterrupts) {
  want(1, 0);
  due(1, 60, 0);
  EXPECT_THAT(granted(0), ElementsAre(1));
  want(2, 3);
  due(2, 10, 3);
  used(1, 3, 3);
  EXPECT_THAT(granted(3), ElementsAre(2));
}

TEST_F(DeadlineTest, WhoIsLateAlreadyGoesBehindWhoCanBeInTime) {
  want(1, 0);
  want(2, 0);
  due(1, -5, 0);
  due(2, 30, 0);
  EXPECT_THAT(granted(0), ElementsAre(2)) << "in the phase of 1";
  used(2, 10, 10);
  arbiter_->drained(2, ms(10));
  EXPECT_THAT(granted(10), ElementsAre(1)) << "which has its request all the same";
}

TEST_F(DeadlineTest, ServedInTimeItGivesWay) {
  want(1, 0);
  want(2, 0);
  due(1, 60, 0);
  due(2, 30, 0);
  granted(0);
  used(2, 2, 2);
  due(2, 90, 2);  // its next request
  EXPECT_THAT(granted(2), ElementsAre(1));
}

TEST_F(DeadlineTest, BeyondTheRequestItWaitsForThoseUnderTheirs) {
  want(1, 0);
  want(2, 0);
  due(2, 1, 0);
  granted(0);
  used(2, 10, 10);
  arbiter_->drained(2, ms(10));
  EXPECT_THAT(granted(10), ElementsAre(1)) << "the urgent one has had its request";
  used(1, 9, 19);
  EXPECT_THAT(granted(19), IsEmpty());
}

TEST_F(DeadlineTest, BorrowersWhoCanBeInTimeComeBeforeThoseWhoCannot) {
  add(client(1, 1000, 100, 1000));
  add(client(2, 1000, 100, 1000, {{0}, {500}}));
  want(1, 0);
  used(1, 3, 0);  // both are over their request
  used(2, 3, 0);
  want(2, 0);
  due(1, 1, 2);
  due(2, 15, 2);
  EXPECT_THAT(granted(2), ElementsAre(2));
  due(1, 10, 2.5);
  used(2, 0.5, 2.5);
  EXPECT_THAT(granted(2.5), ElementsAre(1));
}

TEST_F(DeadlineTest, ADeadlineBorrowsAsMuchAgainAsTheRequestAndThenAsOthersDo) {
  add(client(1, 1000, 100, 1000));
  add(client(2, 1000, 100, 1000, {{0}, {500}}));
  want(1, 0);
  want(2, 0);
  used(1, 2, 0);  // its request
  used(2, 3, 0);  // and half of it once more
  due(2, 15, 2);
  EXPECT_THAT(granted(2), ElementsAre(2));
  used(2, 1, 3);
  arbiter_->drained(2, ms(3));
  EXPECT_THAT(granted(3), ElementsAre(1));
  used(1, 1.5, 5);
  due(2, 20, 5);
  EXPECT_THAT(granted(5), Not(Contains(2))) << "it has had its turn, whatever it says";
}

// Requests of 4 ms with an objective of 10 ms beside a neighbour that always has work: under the
// plan alone half of them wait for their phase.
TEST(Deadline, MakesRequestsInTimeThatThePlanMakesLate) {
  const auto late = [](std::string_view arbiter) {
    Simulation device(arbiter);
    EXPECT_TRUE(device.add(client(1, 1000, 600, 1000), training(kOp, 20)).ok());
    EXPECT_TRUE(
        device
            .add(client(2, 1000, 400, 1000, {{0}, {600}}), serving(kOp, 8, Millis(50), Millis(10)))
            .ok());
    device.run(Seconds(60));
    EXPECT_GE(seconds(device.used(1, Seconds(0), Seconds(60))), 0.6 * 60);
    const auto& all = device.latencies(2);
    EXPECT_GT(all.size(), 1000u);
    const auto missed =
        std::count_if(all.begin(), all.end(), [](Nanos n) { return n > Millis(10); });
    return static_cast<double>(missed) / static_cast<double>(all.size());
  };
  const double planned = late("planned"), deadline = late("deadline");
  RecordProperty("late_planned_permille", static_cast<int>(1000 * planned));
  RecordProperty("late_deadline_permille", static_cast<int>(1000 * deadline));
  EXPECT_LT(deadline, planned / 2) << planned;
}

// A client that always reports itself late and holds without working takes its own share, no more.
TEST(Deadline, ALiarCostsItsNeighboursNothing) {
  for (const Behaviour& liar : {pretending(), greedy(kOp)}) {
    Simulation device("deadline");
    ASSERT_TRUE(device.add(client(1, 1000, 500, 500), greedy(kOp)).ok());
    ASSERT_TRUE(device.add(client(2, 1000, 300, 1000, {{0}, {500}}), liar).ok());
    ASSERT_TRUE(device.add(client(3, 1000, 200, 200, {{0}, {800}}), greedy(kOp)).ok());
    for (Nanos t{0}; t < Seconds(11); t += Millis(1))
      device.at(t, [&device] { device.say_deadline(2, Micros(-1)); });
    device.run(Seconds(11));
    EXPECT_GE(seconds(device.used(1, Seconds(1), Seconds(11))), 0.495 * 10);
    EXPECT_GE(seconds(device.used(3, Seconds(1), Seconds(11))), 0.195 * 10);
  }
}

// Three clients could use all of the device, two fifths of which can be borrowed. The last one
// reports in every millisecond that it has to answer within the next.
TEST(Deadline, WhatADueTimeGainsIsOneMoreRequest) {
  Simulation device("deadline");
  for (const int id : {1, 2, 3}) {
    const ShareClient c =
        client(static_cast<ClientId>(id), 1000, 200, 1000, {{0}, {200 * (id - 1)}});
    ASSERT_TRUE(device.add(c, greedy(Micros(200))).ok());
  }
  for (Nanos t{0}; t < Seconds(11); t += Millis(1))
    device.at(t, [&device] { device.say_deadline(3, Millis(1)); });
  device.run(Seconds(11));
  const auto share = [&](ClientId id) {
    return seconds(device.used(id, Seconds(1), Seconds(11))) / 10;
  };
  EXPECT_LE(share(3), 0.2 + 0.2 + 0.01) << "and an operator a window";
  EXPECT_GE(share(1) + share(2), 0.59);
}

}  // namespace
}  // namespace sluice::policy
