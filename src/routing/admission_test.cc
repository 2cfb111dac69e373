// Admission: when a request can start, and whether it is taken.
#include "routing/admission.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace sluice::policy {
namespace {

constexpr Time kNow{Seconds(1000)};

ServiceTime steady(Nanos service) {
  ServiceTime s;
  for (int i = 0; i < 100; ++i) s.add(1, service);
  return s;
}

// An instance whose newest batch was given to it so long ago.
ServerView busy(int slots, Nanos service, Nanos ago, int batch = 1) {
  return {.slots = slots,
          .batch = batch,
          .full = service,
          .next = service,
          .free_at = kNow - ago + service};
}

TEST(ServiceTime, FollowsItsSamplesAndIsNotCarriedAwayByOne) {
  ServiceTime s = steady(Millis(50));
  EXPECT_NEAR(seconds(s.mean()), 0.050, 0.001);
  s.add(1, Seconds(30));
  EXPECT_LT(s.mean(), Millis(75)) << "counts as four times the mean";
  for (int i = 0; i < 50; ++i) s.add(1, Millis(200));
  EXPECT_NEAR(seconds(s.mean()), 0.200, 0.005);
}

TEST(ServiceTime, KnowsThatAPartOfABatchIsFaster) {
  ServiceTime s;
  Random random(1);
  for (int i = 0; i < 100; ++i) {
    const int batch = 1 + static_cast<int>(random.below(8));
    s.add(batch, Millis(10 + 5 * batch));
  }
  EXPECT_NEAR(seconds(s.of(1)), 0.015, 0.001);
  EXPECT_NEAR(seconds(s.of(8)), 0.050, 0.001);
}

TEST(ServiceTime, AssumesNothingOfSizesThatItHasNotSeen) {
  EXPECT_EQ(steady(Millis(50)).of(8), steady(Millis(50)).mean());
  ServiceTime noisy;  // by chance, larger ones were much slower, then much faster
  for (const auto& [batch, ms] : {std::pair{4, 40}, {5, 90}, {4, 30}, {5, 80}})
    noisy.add(batch, Millis(ms));
  EXPECT_LE(noisy.of(9), 3 * noisy.mean()) << "in proportion at most";
  EXPECT_GT(noisy.of(1), Nanos(0));
  for (int i = 0; i < 20; ++i) noisy.add(i % 2 == 0 ? 4 : 5, i % 2 == 0 ? Millis(90) : Millis(30));
  EXPECT_EQ(noisy.of(9), noisy.mean()) << "a larger one is never expected to be faster";
}

TEST(PlacesBy, TableOfQueues) {
  struct Case {
    const char* name;
    std::vector<ServerView> servers;
    int ahead;
    Nanos starts_in;
  };
  const ServerView idle{.slots = 2, .free = 2, .full = Millis(50), .next = Millis(50)};
  ServerView overdue = busy(1, Millis(50), Millis(90));
  const std::vector<Case> cases{
      {"a slot is free", {idle}, 1, Nanos(0)},
      {"behind what takes the free slots", {idle}, 3, Millis(50)},
      {"next when the one that runs is done", {busy(1, Millis(50), Millis(20))}, 0, Millis(30)},
      {"overdue: at any moment", {overdue}, 0, Nanos(0)},
      {"third in line at one", {busy(1, Millis(50), Millis(20))}, 2, Millis(130)},
      {"third in line at two",
       {busy(1, Millis(50), Millis(20)), busy(1, Millis(50), Millis(10))},
       2,
       Millis(80)},
      {"joins the next batch", {busy(4, Millis(50), Millis(20), 4)}, 3, Millis(30)},
      {"joins the batch after it", {busy(4, Millis(50), Millis(20), 4)}, 4, Millis(80)},
      {"two instances, one much slower",
       {busy(1, Millis(10), Millis(0)), busy(1, Seconds(1), Millis(0))},
       4,
       Millis(50)},
  };
  for (const Case& c : cases) {
    const Time done = kNow + c.starts_in + c.servers.front().next;
    EXPECT_GT(places_by(c.servers, kNow, done), c.ahead) << c.name;
    EXPECT_LE(places_by(c.servers, kNow, done - Nanos(1)), c.ahead) << c.name;
  }
}

// One instance that takes 50 ms and has just begun; an objective of 500 ms.
TEST(Admit, WhatCannotBeInTimeIsRefusedAndToldWhenToComeBack) {
  const std::vector<ServerView> one{busy(1, Millis(50), Nanos(0))};
  const Nanos objective = Millis(500);
  const auto ask = [&](int ahead, Nanos margin = Nanos(0)) {
    return admit({kNow, kNow + objective, ahead}, one, margin, objective);
  };
  EXPECT_TRUE(ask(0).admitted);
  EXPECT_TRUE(ask(8).admitted) << "answered after 500 ms";
  EXPECT_FALSE(ask(9).admitted) << "answered after 550 ms";
  EXPECT_FALSE(ask(8, Millis(1)).admitted) << "a margin counts";
  EXPECT_EQ(ask(27).retry_after, Millis(950)) << "when 19 of them are done";
}

TEST(Admit, BeforeTheFirstAnswerAFewWait) {
  const std::vector<ServerView> one{busy(1, Nanos(0), Nanos(0))};
  const auto admitted = [&](std::vector<ServerView> servers, int ahead) {
    return admit({kNow, kNow + Millis(500), ahead}, servers, Nanos(0), Millis(500)).admitted;
  };
  EXPECT_TRUE(admitted(one, 7));
  EXPECT_FALSE(admitted(one, 8));
  EXPECT_TRUE(admit({kNow, kNow + Seconds(60), 900}, one, Nanos(0), Nanos(0)).admitted)
      << "nothing is promised";
  EXPECT_TRUE(admitted({}, 900)) << "no instance is ready: held while one starts";
}

TEST(Admit, WhatStartsAtOnceIsTakenHoweverSlowTheFunctionIs) {
  const std::vector<ServerView> idle{
      {.slots = 1, .free = 1, .full = Seconds(2), .next = Seconds(2)}};
  EXPECT_TRUE(admit({kNow, kNow + Millis(100), 0}, idle, Millis(50), Millis(100)).admitted);
}

// Nothing could be in time: then at least the start is.
TEST(Admit, WhereNoAnswerCanBeInTimeTheStartCounts) {
  const std::vector<ServerView> one{busy(1, Millis(600), Millis(500))};
  EXPECT_TRUE(admit({kNow, kNow + Millis(300), 0}, one, Millis(150), Millis(300)).admitted);
  EXPECT_FALSE(admit({kNow, kNow + Millis(300), 1}, one, Millis(150), Millis(300)).admitted);
}

// It delays no other request, and may be in time.
TEST(Admit, WhatFillsUpABatchHasToStartInTime) {
  const auto admitted = [](Nanos ago, bool fills_up) {
    const std::vector<ServerView> one{busy(4, Millis(60), ago, 4)};
    return admit({kNow, kNow + Millis(100), 1, fills_up}, one, Millis(10), Millis(100)).admitted;
  };
  EXPECT_TRUE(admitted(Millis(35), false)) << "answered after 85 ms";
  EXPECT_FALSE(admitted(Millis(25), false)) << "answered after 95 ms";
  EXPECT_TRUE(admitted(Millis(10), true)) << "starts after 50 ms";
  EXPECT_FALSE(admitted(-Millis(50), true)) << "starts after 110 ms";
}

TEST(LateMargin, GrowsWithWhatIsLateAndForgets) {
  LateMargin margin;
  const Nanos objective = Millis(80);
  EXPECT_EQ(margin.at(kNow), Nanos(0));
  margin.ended(true, objective, kNow);
  EXPECT_EQ(margin.at(kNow), Millis(10));
  for (int i = 0; i < 50; ++i) margin.ended(false, objective, kNow);
  EXPECT_EQ(margin.at(kNow), Millis(5)) << "a hundred in time make up for one";
  for (int i = 0; i < 100; ++i) margin.ended(true, objective, kNow);
  EXPECT_EQ(margin.at(kNow), objective / 2) << "at most";
  EXPECT_NEAR(seconds(margin.at(kNow + Seconds(20))), seconds(objective / 8), 1e-6)
      << "though nothing was admitted meanwhile";
}

}  // namespace
}  // namespace sluice::policy
