// Routing: proportions, order of the queue, and what happens at the edges.
#include "routing/route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <ranges>
#include <string>

#include "base/random.h"
#include "routing/rate.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;

InstanceView instance(double capability, int credit = 1000000, int outstanding = 0) {
  return {.revision = 1, .capability = capability, .credit = credit, .outstanding = outstanding};
}

// A route over some instances, and its state.
struct Routed {
  Routed(std::string_view route, std::vector<InstanceView> all)
      : route(*find_route(route)), instances(std::move(all)), state{.instances = {}} {
    state.instances.resize(instances.size());
  }
  std::optional<size_t> choose(int revision = 1) {
    return route.choose({.revision = revision}, instances, state, Time{});
  }
  std::vector<int> count_choices(int n) {
    std::vector<int> counts(instances.size());
    for (int i = 0; i < n; ++i) ++counts[choose().value()];
    return counts;
  }

  const Route& route;
  std::vector<InstanceView> instances;
  RouteState state;
};

TEST(Weighted, FollowsCapabilityExactly) {
  Routed r("weighted", {instance(50), instance(30), instance(20)});
  EXPECT_THAT(r.count_choices(100), ElementsAre(50, 30, 20));
}

TEST(Weighted, InterleavesInsteadOfSendingRuns) {
  Routed r("weighted", {instance(2), instance(1)});
  std::string order;
  for (int i = 0; i < 6; ++i) order += static_cast<char>('a' + *r.choose());
  EXPECT_EQ(order, "abaaba");
}

TEST(Weighted, AnInstanceThatHadNoCreditIsNotFloodedAfterwards) {
  Routed r("weighted", {instance(10), instance(10, 0)});
  EXPECT_THAT(r.count_choices(50), ElementsAre(50, 0));
  r.instances[1].credit = 1000;
  EXPECT_THAT(r.count_choices(50), ElementsAre(25, 25));
}

TEST(Weighted, UnknownCapabilitiesShareEvenly) {
  Routed r("weighted", {instance(0), instance(0)});
  EXPECT_THAT(r.count_choices(10), ElementsAre(5, 5));
}

TEST(Weighted, BalancesStayBoundedWhateverHasCredit) {
  const uint64_t seed = 11;
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<InstanceView> instances;
  for (int i = 0; i < 8; ++i) instances.push_back(instance(1 + random.uniform() * 100));
  int64_t total = 0, most = 0;
  for (const InstanceView& i : instances) total += static_cast<int64_t>(i.capability * 1000) + 1;
  Routed r("weighted", instances);
  for (int step = 0; step < 100000; ++step) {
    for (InstanceView& i : r.instances) i.credit = random.chance(0.5) ? 1 : 0;
    r.choose();
    int64_t sum = 0;
    for (const int64_t balance : r.state.instances) {
      sum += balance;
      most = std::max(most, std::abs(balance));
    }
    ASSERT_EQ(sum, 0);
  }
  EXPECT_LE(most, 2 * total);
}

TEST(LeastWork, WeighsOutstandingByCapability) {
  Routed r("least_work", {instance(10, 9, 2), instance(100, 9, 9)});
  EXPECT_EQ(r.choose(), 1u);  // 10 ÷ 100 s against 3 ÷ 10 s
}

TEST(LeastWork, TiesGoToTheMoreCapableThenTheFirst) {
  Routed r("least_work", {instance(10, 9, 0), instance(20, 9, 1), instance(20, 9, 1)});
  EXPECT_EQ(r.choose(), 1u);
}

// Instances by letter, which join and leave as a gateway's table has them: in the order of their
// ids, and the state's numbers with their instances.
struct Turns : Routed {
  Turns(std::string_view route, std::string all) : Routed(route, {}) { table(std::move(all)); }
  void table(std::string now) {
    std::vector<InstanceView> views;
    std::vector<int64_t> numbers;
    for (const char id : now) {
      const size_t at = ids.find(id);
      const bool known = at != std::string::npos;
      views.push_back(known ? instances[at] : instance(10));
      numbers.push_back(known ? state.instances[at] : 0);
    }
    ids = std::move(now);
    instances = std::move(views);
    state.instances = std::move(numbers);
  }
  InstanceView& at(char id) { return instances[ids.find(id)]; }
  std::string take(int n) {
    std::string order;
    for (int i = 0; i < n; ++i) order += ids[choose().value()];
    return order;
  }
  std::string ids;
};

TEST(RoundRobin, GoesThroughTheIdsWhateverTheLoadAndCapability) {
  Turns r("round_robin", "abc");
  r.at('a').capability = 1000;
  r.at('b').outstanding = 9;
  EXPECT_EQ(r.take(7), "abcabca");
}

TEST(RoundRobin, WithoutCreditATurnIsLostAndNotMadeUpFor) {
  Turns r("round_robin", "abc");
  r.at('b').credit = 0;
  EXPECT_EQ(r.take(5), "acaca");
  r.at('b').credit = 1000;
  EXPECT_EQ(r.take(4), "bcab");
}

TEST(RoundRobin, JoinsAndLeavesDoNotDisturbTheTurns) {
  struct Change {
    int choices_before;
    std::string instances, next;
  };
  const std::vector<Change> all{
      {2, "abcx", "cxab"}, {2, "abxc", "xcab"}, {2, "axbc", "caxb"},  // a new one, anywhere
      {2, "ac", "cac"},    {2, "bc", "cbc"},    {2, "ab", "aba"},  // one left: last, before, next
      {3, "ab", "aba"},    {3, "a", "aa"},      {2, "c", "cc"},    // and several
      {2, "acx", "cxac"},  {2, "xyz", "xyzx"},  {0, "bc", "bcb"},
  };
  for (const Change& change : all) {
    Turns r("round_robin", "abc");
    r.take(change.choices_before);
    r.table(change.instances);
    EXPECT_EQ(r.take(static_cast<int>(change.next.size())), change.next)
        << change.instances << " after " << change.choices_before;
  }
}

TEST(RoundRobin, EachRevisionHasItsOwnTurns) {
  Routed r("round_robin", std::vector<InstanceView>(4, instance(10)));
  r.instances[1].revision = r.instances[3].revision = 2;
  std::string order;
  for (const int revision : {1, 2, 2, 1, 1, 2})
    order += static_cast<char>('a' + *r.choose(revision));
  EXPECT_EQ(order, "abdcab");
}

// While the instances with credit stay the same, their counts differ by at most one.
TEST(RoundRobin, CountsDifferByAtMostOneWhileTheSetStays) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Turns r("round_robin", "abcdefgh");
    for (int set = 0; set < 200; ++set) {
      for (InstanceView& i : r.instances) i.credit = random.chance(0.6) ? 1000 : 0;
      std::map<char, int> counts;
      for (size_t i = 0; i < r.ids.size(); ++i)
        if (r.instances[i].credit > 0) counts[r.ids[i]] = 0;
      if (counts.empty()) continue;
      for (uint64_t n = random.below(40); n > 0; --n) {
        for (InstanceView& i : r.instances) i.outstanding = static_cast<int>(random.below(9));
        ++counts[r.ids[r.choose().value()]];
        const auto [least, most] = std::ranges::minmax(counts | std::views::values);
        ASSERT_LE(most - least, 1) << "set " << set;
      }
    }
  }
}

// Between two turns of an instance, each other that had credit all the while has exactly one.
TEST(RoundRobin, SkipsAndRepeatsNoneWhileOthersJoinAndLeave) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Turns r("round_robin", "");
    // Of each pair that has credit since the first one's turn: the turns of the other.
    std::map<char, std::map<char, int>> since;
    const auto forget = [&](char id) {
      since.erase(id);
      for (auto& [other, turns] : since) turns.erase(id);
    };
    for (int step = 0; step < 5000; ++step) {
      const char id = static_cast<char>('a' + random.below(8));
      const size_t at = r.ids.find(id);
      if (random.chance(0.2)) {
        std::string ids = r.ids;
        if (at == std::string::npos)
          ids.insert(std::ranges::upper_bound(ids, id), id);
        else
          ids.erase(at, 1), forget(id);
        r.table(ids);
      } else if (at != std::string::npos && random.chance(0.2)) {
        r.at(id).credit = r.at(id).credit > 0 ? 0 : 1000000;
        forget(id);
      }
      const auto chosen = r.choose();
      if (!chosen) continue;
      const char turn = r.ids[*chosen];
      for (const auto& [other, turns] : since[turn]) ASSERT_EQ(turns, 1) << turn << other << step;
      for (auto& [other, turns] : since) {
        if (turns.contains(turn)) ++turns[turn];
      }
      since[turn].clear();
      for (const char other : r.ids)
        if (other != turn && r.at(other).credit > 0) since[turn][other] = 0;
    }
  }
}

TEST(LeastOutstanding, CountsRequestsWhateverTheCapability) {
  Turns r("least_outstanding", "abc");
  r.at('a').outstanding = 3, r.at('a').capability = 1000;
  r.at('b').outstanding = 2;
  r.at('c').outstanding = 1, r.at('c').credit = 0;
  EXPECT_EQ(r.take(1), "b");
}

TEST(LeastOutstanding, EqualOnesShareInTurn) {
  Turns r("least_outstanding", "abc");
  EXPECT_EQ(r.take(7), "abcabca");
  r.at('b').outstanding = 1;
  EXPECT_EQ(r.take(4), "caca");
  r.table("abcx");
  r.at('b').outstanding = 0;
  EXPECT_EQ(r.take(5), "xbcax") << "those not chosen for longest first";
}

TEST(LeastOutstanding, NoneWithCreditHasFewerThanTheChosen) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Routed r("least_outstanding", std::vector<InstanceView>(8));
    for (InstanceView& i : r.instances)
      i = instance(random.uniform() * 100, 1 + static_cast<int>(random.below(4)));
    for (int step = 0; step < 5000; ++step) {
      InstanceView& answers = r.instances[random.below(r.instances.size())];
      if (answers.outstanding > 0) --answers.outstanding, ++answers.credit;
      const auto at = r.choose();
      for (const InstanceView& i : r.instances)
        ASSERT_TRUE(i.credit <= 0 || (at && r.instances[*at].outstanding <= i.outstanding)) << step;
      if (!at) continue;
      ASSERT_GT(r.instances[*at].credit, 0) << step;
      --r.instances[*at].credit;
      ++r.instances[*at].outstanding;
    }
  }
}

// Instances of a measured service rate and a predicted one.
Routed by_service_rate(std::vector<std::pair<double, double>> measured_and_predicted) {
  Routed r("service_rate", {});
  for (const auto& [measured, predicted] : measured_and_predicted) {
    r.instances.push_back(instance(predicted));
    r.instances.back().service_rate = measured;
  }
  r.state.instances.resize(r.instances.size());
  return r;
}

// SMIF's T4 and V100: each has the same service rate ÷ arrivals.
TEST(ServiceRateRoute, ArrivalsFollowWhatWasMeasuredWhateverWasPredicted) {
  Routed r = by_service_rate({{117, 500}, {63, 500}});
  EXPECT_THAT(r.count_choices(100), ElementsAre(65, 35));
}

TEST(ServiceRateRoute, AnUnmeasuredInstanceCountsAsPredictedElseLikeTheOthers) {
  EXPECT_THAT(by_service_rate({{60, 0}, {0, 30}}).count_choices(90), ElementsAre(60, 30));
  EXPECT_THAT(by_service_rate({{60, 0}, {0, 0}}).count_choices(90), ElementsAre(45, 45));
  EXPECT_THAT(by_service_rate({{0, 0}, {0, 0}}).count_choices(90), ElementsAre(45, 45));
}

// A third of the inferences comes one by one, the rest in requests of 64.
TEST(ServiceRateRoute, LargeRequestsGoToStrongDevicesAndInferencesFollowTheRates) {
  Routed r = by_service_rate({{200, 200}, {50, 50}, {50, 50}});
  std::vector<int> small(3), large(3);
  for (int step = 0; step < 20000; ++step) {
    const bool is_large = step % 33 == 0;
    const RequestView request{.revision = 1, .inferences = is_large ? 64 : 1};
    ++(is_large ? large : small)[r.route.choose(request, r.instances, r.state, Time{}).value()];
  }
  EXPECT_THAT(large[1] + large[2], testing::Le(large[0] / 10)) << "to the weak ones";
  const auto inferences = [&](size_t i) { return small[i] + 64 * large[i]; };
  const double all = inferences(0) + inferences(1) + inferences(2);
  EXPECT_NEAR(inferences(0) / all, 200.0 / 300, 0.02);
  EXPECT_NEAR(inferences(1) / all, 50.0 / 300, 0.02);
  EXPECT_NEAR(inferences(2) / all, 50.0 / 300, 0.02);
}

TEST(ServiceRateRoute, BodiesStandForTheBatchOfRequestsThatDoNotSay) {
  Routed r = by_service_rate({{50, 50}, {50, 100}});
  std::vector<int> large(2);
  for (int step = 0; step < 2000; ++step) {
    const RequestView request{.revision = 1, .body_bytes = step % 8 == 0 ? 70000u : 10000u};
    const size_t chosen = r.route.choose(request, r.instances, r.state, Time{}).value();
    if (step % 8 == 0) ++large[chosen];
  }
  EXPECT_LE(large[0], 25) << "of 250";
}

// Few and large, after many small ones: within half a minute the old sizes are forgotten.
TEST(ServiceRateRoute, AChangeOfSizesIsSeenSoonWhereRequestsAreFew) {
  Routed r = by_service_rate({{117, 117}, {63, 63}});
  Time now(Seconds(1000));
  for (int step = 0; step < 10'000; ++step)
    r.route.choose({.revision = 1, .inferences = 1}, r.instances, r.state, now += Millis(10));
  std::vector<int> chosen(2);
  for (int step = 0; step < 260; ++step) {
    const auto at =
        r.route.choose({.revision = 1, .inferences = 64}, r.instances, r.state, now += Millis(500));
    if (step >= 60) ++chosen[at.value()];
  }
  EXPECT_NEAR(chosen[0], 130, 4) << "of 200";
}

TEST(ServiceRateRoute, AStrongDeviceWithoutCreditLeavesLargeRequestsToTheWeak) {
  Routed r = by_service_rate({{200, 200}, {50, 50}});
  r.instances[0].credit = 0;
  EXPECT_EQ(r.route.choose({.revision = 1, .inferences = 64}, r.instances, r.state, Time{}), 1u);
}

TEST(ServiceRateRoute, ASluggishInstanceTakesLessWhileAnotherIsInTime) {
  Routed r = by_service_rate({{50, 50}, {50, 50}});
  const auto late = [&](double first, double second) {
    r.instances[0].late = first, r.instances[1].late = second;
    return r.count_choices(720);
  };
  EXPECT_THAT(late(0.05, 0), ElementsAre(360, 360)) << "few late answers are no sign";
  EXPECT_THAT(late(0.5, 0), ElementsAre(240, 480));
  EXPECT_THAT(late(1, 0.05), ElementsAre(80, 640)) << "an eighth remains";
  EXPECT_THAT(late(1, 0.1), ElementsAre(360, 360)) << "all are late";
  r.instances[1].service_rate = 0;
  EXPECT_THAT(late(1, 0), ElementsAre(360, 360)) << "whether the other is in time is unknown";
}

TEST(ServiceRateRoute, AnInstanceWithoutCreditMakesNoOtherSluggish) {
  Routed r = by_service_rate({{50, 50}, {50, 50}, {50, 50}});
  r.instances[0].late = 1, r.instances[1].late = 0.5;
  r.instances[2].credit = 0;
  EXPECT_THAT(r.count_choices(100), ElementsAre(50, 50, 0));
}

// An instance answers late until request 1000, then in time again.
TEST(ServiceRateRoute, ASluggishInstanceFallsFirstAndComesBackByItself) {
  Routed r = by_service_rate({{50, 50}, {50, 50}});
  LateFraction first;
  const auto share = [&](bool late, int requests) {
    int chosen = 0;
    for (int step = 0; step < requests; ++step) {
      if (r.choose() != 0u) continue;
      ++chosen;
      first.add(late);
      r.instances[0].late = first.value();
    }
    return static_cast<double>(chosen) / requests;
  };
  share(true, 500);
  EXPECT_NEAR(share(true, 500), 1.0 / 9, 0.01);
  EXPECT_GT(share(false, 500), 0.2);
  EXPECT_NEAR(share(false, 500), 0.5, 0.01);
}

TEST(LateFraction, FollowsTheAnswersAndForgetsOldOnes) {
  LateFraction f;
  EXPECT_EQ(f.value(), 0);
  f.add(true);
  EXPECT_LE(f.value(), 0.05) << "one late answer is no sign";
  for (int n = 0; n < 22; ++n) f.add(true);
  EXPECT_NEAR(f.value(), 0.5, 0.03);
  for (int n = 0; n < 100; ++n) f.add(true);
  EXPECT_GT(f.value(), 0.95);
  for (int n = 0; n < 100; ++n) f.add(false);
  EXPECT_LE(f.value(), 0.05);
}

TEST(Routes, NothingWithoutCreditOrOfAnotherRevision) {
  for (const Route& route : routes()) {
    Routed r(route.name, {instance(10, 0), instance(10)});
    r.instances[1].revision = 2;
    EXPECT_EQ(r.choose(1), std::nullopt) << route.name;
    EXPECT_EQ(r.choose(2), 1u) << route.name;
    EXPECT_EQ(Routed(route.name, {}).choose(), std::nullopt) << route.name;
    EXPECT_EQ(find_route(route.name), &route);
  }
  EXPECT_EQ(find_route("none"), nullptr);
}

// Recorded before routes saw requests and measurements: seeded instances whose requests end at
// random, of two revisions; a letter names the instance, - is none.
TEST(Routes, ChooseAsRecorded) {
  struct Recorded {
    const char* route;
    uint64_t seed;
    std::string chosen;
  };
  const std::vector<Recorded> all{
      {"weighted", 1,
       "ffcbeefeebd--afcdca--cafcaafb-daeeb---ec-ed---b---ecbc-d-cb-fbc-fb-dabbecacfb---"
       "-cb-f--fafcdacfeb--cfef--afc-d-ccff---c---b---acefbf-dcfb--e---fba--bf---cf--db-"},
      {"weighted", 2,
       "dcbhecgb-fhdac-echdcbdhff-a--h---b-cdecdbdga-fhceaf---a-f-c-d-c--ehb-dgfcheach-g"
       "h-bdfebhdggfdfca-e--cdbcf-gce-df---dfcebdghfh-haghc-e-bd---c--ah-ebd-hgbhbga-bcc"},
      {"least_work", 1,
       "ffcbeefeebc--dfddac--cafdcafb-daebbe--ec-ec---b---ecbd-c-db-fbc-fb-cabbeaccfb---"
       "-db-f--fdfcdacfeb--cfef--cfd-c-caff---c---b---dafebf-ccfb--e---fbc--bf---cf--db-"},
      {"least_work", 2,
       "dcbhbdec-deech-ebdcdchgfb-c--b---b-debdcdhhg-cfeaff---f-c-c-d-h--dbd-hechgcfgb-h"
       "e-hdbgdgdfgadcfe-b--cdeec-cdd-dg---debdchghgh-ehcgb-c-de---b--bh-bde-bbhbgfa-bcc"},
  };
  for (const Recorded& recorded : all) {
    SCOPED_TRACE(recorded.seed);
    Random random(recorded.seed);
    Routed r(recorded.route, std::vector<InstanceView>(8));
    for (InstanceView& i : r.instances) {
      i.revision = random.chance(0.7) ? 1 : 2;
      i.capability = random.chance(0.1) ? 0 : 1 + random.uniform() * 99;
      i.credit = static_cast<int>(random.below(4));
    }
    std::string chosen;
    for (int step = 0; step < 160; ++step) {
      InstanceView& i = r.instances[random.below(r.instances.size())];
      if (i.outstanding > 0) --i.outstanding, ++i.credit;
      const auto at = r.choose(random.chance(0.7) ? 1 : 2);
      chosen += at ? static_cast<char>('a' + *at) : '-';
      if (!at) continue;
      --r.instances[*at].credit;
      ++r.instances[*at].outstanding;
    }
    EXPECT_EQ(chosen, recorded.chosen) << recorded.route;
  }
}

TEST(RequestView, SizeClassesArePowersOfTwo) {
  const auto size_class = [](uint64_t bytes) {
    return RequestView{.body_bytes = bytes}.size_class();
  };
  EXPECT_EQ(size_class(0), 0);
  EXPECT_EQ(size_class(1), 1);
  EXPECT_EQ(size_class(1023), 10);
  EXPECT_EQ(size_class(1024), 11);
  EXPECT_EQ(size_class(2047), 11);
}

TEST(ServiceRate, IsOfBusyTimeWhateverTheBatch) {
  for (const int batch : {1, 4}) {
    ServiceRate rate;
    EXPECT_EQ(rate.per_second(), 0);
    Time now(Seconds(100));
    for (int i = 0; i < 50; ++i) {
      now += Seconds(7);  // idle
      rate.begin(now);
      now += Millis(40);
      for (int k = 0; k < batch; ++k) rate.end(2, now);
    }
    EXPECT_NEAR(rate.per_second(), 2 * batch / 0.04, 0.15 * 2 * batch / 0.04) << batch;
  }
}

TEST(ServiceRate, FollowsWhatItMeasuresAndCountsTimeWithoutAnAnswer) {
  ServiceRate rate;
  Time now(Seconds(100));
  rate.begin(now);
  const auto answers = [&](int n, Nanos each) {
    for (int i = 0; i < n; ++i) rate.end(1, now += each);
  };
  answers(50, Millis(10));
  EXPECT_NEAR(rate.per_second(), 100, 1);
  answers(50, Millis(20));
  EXPECT_NEAR(rate.per_second(), 50, 5);
  rate.end(0, now += Seconds(60));
  EXPECT_LT(rate.per_second(), 1);
}

TEST(Split, IsExactOverAnyHundred) {
  RevisionSplit split;
  split.set(std::vector<RevisionPercent>{{1, 77}, {2, 20}, {3, 3}});
  std::vector<int> seen;
  for (int i = 0; i < 500; ++i) seen.push_back(split.next());
  for (size_t from = 0; from + 100 <= seen.size(); ++from) {
    std::map<int, int> counts;
    for (size_t i = from; i < from + 100; ++i) ++counts[seen[i]];
    ASSERT_THAT(counts, ElementsAre(std::pair(1, 77), std::pair(2, 20), std::pair(3, 3))) << from;
  }
}

TEST(Split, SameTableAgainDoesNotDisturbTheSequence) {
  RevisionSplit split;
  const std::vector<RevisionPercent> table = {{1, 90}, {2, 10}};
  std::map<int, int> counts;
  for (int i = 0; i < 100; ++i) {
    split.set(table);
    ++counts[split.next()];
  }
  EXPECT_THAT(counts, ElementsAre(std::pair(1, 90), std::pair(2, 10)));
}

TEST(Split, NoTrafficIsNoRevision) {
  RevisionSplit split;
  EXPECT_EQ(split.next(), 0);
  split.set(std::vector<RevisionPercent>{{1, 0}});
  EXPECT_EQ(split.next(), 0);
}

class Queue : public testing::Test {
 protected:
  Time at(int ms) const { return Time(Seconds(1000)) + Millis(ms); }
  DeadlineQueue<std::string>::Ticket add(const std::string& name, int deadline_ms) {
    return queue_.push(at(deadline_ms), name);
  }
  // Everything that waits, in the order it would leave at that moment.
  std::string drain(int now_ms, int fastest_ms) {
    std::string order;
    while (auto next = queue_.pop(at(now_ms), Millis(fastest_ms))) order += *next;
    return order;
  }
  DeadlineQueue<std::string> queue_;
};

TEST_F(Queue, EarliestDeadlineFirstThenFirstCome) {
  add("c", 30), add("a", 10), add("x", 20), add("y", 20);
  EXPECT_EQ(drain(0, 5), "axyc");
}

TEST_F(Queue, TheLostGoBehindAllOthers) {
  add("a", 10), add("b", 20), add("c", 30);
  EXPECT_EQ(drain(8, 5), "bca");  // 8 + 5 > 10: a is lost
}

TEST_F(Queue, InTimeToTheNanosecondIsNotLost) {
  add("a", 10), add("b", 20);
  EXPECT_EQ(drain(5, 5), "ab");
}

TEST_F(Queue, WhenAllAreLostTheOldestGoesFirst) {
  add("b", 20), add("a", 10);
  EXPECT_EQ(drain(100, 5), "ab");
}

TEST_F(Queue, RemovedOnesAreGone) {
  const auto a = add("a", 10);
  add("b", 20);
  EXPECT_EQ(queue_.remove(a), "a");
  EXPECT_EQ(queue_.remove(a), std::nullopt);
  EXPECT_EQ(queue_.size(), 1u);
  EXPECT_EQ(drain(0, 1), "b");
}

TEST(DeadlineQueue, ReleasesWhatALeavingRequestHeld) {
  DeadlineQueue<std::shared_ptr<int>> queue;
  auto body = std::make_shared<int>(7);
  queue.push(Time(Seconds(1)), body);
  queue.pop(Time(Seconds(0)), Nanos(0)).reset();
  EXPECT_EQ(body.use_count(), 1);
}

// Against the definition, over random pushes, pops and removals.
TEST(DeadlineQueue, AgreesWithASortedList) {
  const uint64_t seed = 5;
  SCOPED_TRACE(seed);
  Random random(seed);
  DeadlineQueue<int> queue;
  std::map<std::pair<Time, int>, DeadlineQueue<int>::Ticket> model;
  Time now(Seconds(1000));
  for (int step = 0; step < 20000; ++step) {
    now += Micros(random.below(200));
    if (random.chance(0.5)) {
      const Time deadline = now + Millis(random.below(50));
      model[{deadline, step}] = queue.push(deadline, step);
    } else if (random.chance(0.1) && !model.empty()) {
      const auto victim = std::next(model.begin(), static_cast<long>(random.below(model.size())));
      ASSERT_EQ(queue.remove(victim->second), victim->first.second);
      model.erase(victim);
    } else if (!model.empty()) {
      auto expected = model.begin();
      while (expected != model.end() && expected->first.first < now + Millis(3)) ++expected;
      if (expected == model.end()) expected = model.begin();
      ASSERT_EQ(queue.pop(now, Millis(3)), expected->first.second);
      model.erase(expected);
    }
    ASSERT_EQ(queue.size(), model.size());
  }
}

}  // namespace
}  // namespace sluice::policy
