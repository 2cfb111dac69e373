// Admission: when a request can start, and whether it is taken.
#include "routing/admission.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace sluice::policy {
namespace {

constexpr Time kNow{Seconds(1000)};

ServiceTime steady(Nanos service) {
  ServiceTime s;
  for (int i = 0; i < 100; ++i) s.add(service);
  return s;
}

// An instance whose newest request was given to it so long ago.
ServerView busy(int slots, Nanos service, Nanos ago, int batch = 1) {
  return {.slots = slots, .batch = batch, .service = service, .free_at = kNow - ago + service};
}

TEST(ServiceTime, FollowsItsSamplesAndIsNotCarriedAwayByOne) {
  ServiceTime s = steady(Millis(50));
  EXPECT_NEAR(seconds(s.mean()), 0.050, 0.001);
  EXPECT_NEAR(seconds(s.deviation()), 0, 0.001);
  s.add(Seconds(30));
  EXPECT_LT(s.mean(), Millis(75)) << "counts as four times the mean";
  for (int i = 0; i < 50; ++i) s.add(Millis(200));
  EXPECT_NEAR(seconds(s.mean()), 0.200, 0.005);
}

TEST(ExpectedStart, TableOfQueues) {
  struct Case {
    const char* name;
    std::vector<ServerView> servers;
    int ahead;
    Nanos starts_in;
  };
  ServerView idle{.slots = 2, .free = 2, .service = Millis(50)};
  const std::vector<Case> cases{
      {"no instance yet: unknown", {}, 5, Nanos(0)},
      {"never measured: unknown", {busy(1, Nanos(0), Nanos(0))}, 5, Nanos(0)},
      {"a slot is free", {idle}, 1, Nanos(0)},
      {"behind what takes the free slots", {idle}, 3, Millis(25)},
      {"next when the one that runs is done", {busy(1, Millis(50), Millis(20))}, 0, Millis(30)},
      {"overdue: at any moment", {busy(1, Millis(50), Millis(90))}, 0, Nanos(0)},
      {"third in line at one", {busy(1, Millis(50), Millis(20))}, 2, Millis(130)},
      {"third in line at two",
       {busy(1, Millis(50), Millis(20)), busy(1, Millis(50), Millis(10))},
       2,
       Millis(80)},
      {"joins the next batch", {busy(4, Millis(50), Millis(20), 4)}, 3, Millis(30)},
      {"joins the batch after it", {busy(4, Millis(50), Millis(20), 4)}, 4, Millis(80)},
  };
  for (const Case& c : cases)
    EXPECT_NEAR(seconds(expected_start(c.servers, c.ahead, kNow) - kNow), seconds(c.starts_in),
                1e-6)
        << c.name;
}

// One instance that takes 50 ms and has just begun; an objective of 500 ms.
TEST(Admit, WhatCannotBeInTimeIsRefusedAndToldWhenToComeBack) {
  const std::vector<ServerView> one{busy(1, Millis(50), Nanos(0))};
  const Nanos objective = Millis(500);
  const auto ask = [&](int ahead) {
    return admit({kNow, kNow + objective, ahead}, one, steady(Millis(50)), objective);
  };
  EXPECT_TRUE(ask(0).admitted);
  EXPECT_TRUE(ask(6).admitted) << "answered after 400 ms; 25 ms and 5 ms × (1 + 3 √6)";
  EXPECT_FALSE(ask(7).admitted) << "answered after 450 ms; 25 ms and 5 ms × (1 + 3 √7)";
  EXPECT_GE(ask(27).retry_after, Millis(950)) << "when 19 of them are done";
}

TEST(Admit, BeforeTheFirstAnswerAFewWait) {
  const std::vector<ServerView> one{busy(1, Nanos(0), Nanos(0))};
  const auto admitted = [&](std::vector<ServerView> servers, int ahead) {
    return admit({kNow, kNow + Millis(500), ahead}, servers, {}, Millis(500)).admitted;
  };
  EXPECT_TRUE(admitted(one, 7));
  EXPECT_FALSE(admitted(one, 8));
  EXPECT_TRUE(admit({kNow, kNow + Seconds(60), 900}, one, {}, Nanos(0)).admitted)
      << "nothing is promised";
  EXPECT_TRUE(admitted({}, 900)) << "no instance is ready: held while one starts";
}

TEST(Admit, TimesThatVaryNeedAWiderMargin) {
  ServiceTime uneven;
  for (int i = 0; i < 200; ++i) uneven.add(Millis(i % 2 == 0 ? 30 : 70));
  const std::vector<ServerView> one{busy(1, Millis(50), Nanos(0))};
  const auto admitted = [&](int ahead) {
    return admit({kNow, kNow + Millis(500), ahead}, one, uneven, Millis(500)).admitted;
  };
  EXPECT_TRUE(admitted(4)) << "300 ms; 25 ms and 20 ms × (1 + 3 √4)";
  EXPECT_FALSE(admitted(6)) << "400 ms; 25 ms and 20 ms × (1 + 3 √6)";
}

TEST(Admit, WhatStartsAtOnceIsTakenHoweverSlowTheFunctionIs) {
  const std::vector<ServerView> idle{{.slots = 1, .free = 1, .service = Seconds(2)}};
  EXPECT_TRUE(admit({kNow, kNow + Millis(100), 0}, idle, steady(Seconds(2)), Millis(100)).admitted);
}

// A service time a little below the objective is no better than one above it.
TEST(Admit, ThereIsNoServiceTimeForWhichNothingMayWait) {
  for (const int service : {100, 200, 250, 270, 290, 299, 300, 400}) {
    const std::vector<ServerView> one{busy(1, Millis(service), Millis(service))};
    EXPECT_TRUE(
        admit({kNow, kNow + Millis(300), 0}, one, steady(Millis(service)), Millis(300)).admitted);
    const std::vector<ServerView> later{busy(1, Millis(service), Millis(service) - Millis(10))};
    if (service < 250 || service >= 270) {
      EXPECT_TRUE(admit({kNow, kNow + Millis(300), 0}, later, steady(Millis(service)), Millis(300))
                      .admitted)
          << service;
    }
  }
}

// Nothing could be in time: then at least the start is.
TEST(Admit, WhereNoAnswerCanBeInTimeTheStartCounts) {
  const std::vector<ServerView> one{busy(1, Millis(600), Millis(500))};
  EXPECT_TRUE(admit({kNow, kNow + Millis(300), 0}, one, steady(Millis(600)), Millis(300)).admitted);
  EXPECT_FALSE(
      admit({kNow, kNow + Millis(300), 1}, one, steady(Millis(600)), Millis(300)).admitted);
}

}  // namespace
}  // namespace sluice::policy
