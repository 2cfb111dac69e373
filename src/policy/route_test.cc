// Routing: proportions, order of the queue, and what happens at the edges.
#include "policy/route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "base/random.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;

InstanceView instance(double capability, int credit = 1000000, int outstanding = 0) {
  return {.revision = 1, .capability = capability, .credit = credit, .outstanding = outstanding};
}

std::vector<int> count_choices(RouteFunction choose, std::vector<InstanceView>& instances, int n) {
  std::vector<int> counts(instances.size());
  for (int i = 0; i < n; ++i) ++counts[choose(instances, 1).value()];
  return counts;
}

TEST(Weighted, FollowsCapabilityExactly) {
  std::vector<InstanceView> instances = {instance(50), instance(30), instance(20)};
  EXPECT_THAT(count_choices(route_weighted, instances, 100), ElementsAre(50, 30, 20));
}

TEST(Weighted, InterleavesInsteadOfSendingRuns) {
  std::vector<InstanceView> instances = {instance(2), instance(1)};
  std::string order;
  for (int i = 0; i < 6; ++i) order += static_cast<char>('a' + *route_weighted(instances, 1));
  EXPECT_EQ(order, "abaaba");
}

TEST(Weighted, WhoHadNoCreditIsNotFloodedAfterwards) {
  std::vector<InstanceView> instances = {instance(10), instance(10, 0)};
  EXPECT_THAT(count_choices(route_weighted, instances, 50), ElementsAre(50, 0));
  instances[1].credit = 1000;
  EXPECT_THAT(count_choices(route_weighted, instances, 50), ElementsAre(25, 25));
}

TEST(Weighted, UnknownCapabilitiesShareEvenly) {
  std::vector<InstanceView> instances = {instance(0), instance(0)};
  EXPECT_THAT(count_choices(route_weighted, instances, 10), ElementsAre(5, 5));
}

TEST(Weighted, BalancesStayBoundedWhateverHasCredit) {
  const uint64_t seed = 11;
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<InstanceView> instances;
  for (int i = 0; i < 8; ++i) instances.push_back(instance(1 + random.uniform() * 100));
  int64_t total = 0, most = 0;
  for (const InstanceView& i : instances) total += static_cast<int64_t>(i.capability * 1000) + 1;
  for (int step = 0; step < 100000; ++step) {
    for (InstanceView& i : instances) i.credit = random.chance(0.5) ? 1 : 0;
    route_weighted(instances, 1);
    int64_t sum = 0;
    for (const InstanceView& i : instances) {
      sum += i.balance;
      most = std::max(most, std::abs(i.balance));
    }
    ASSERT_EQ(sum, 0);
  }
  EXPECT_LE(most, 2 * total);
}

TEST(LeastWork, WeighsOutstandingByCapability) {
  std::vector<InstanceView> instances = {instance(10, 9, 2), instance(100, 9, 9)};
  EXPECT_EQ(route_least_work(instances, 1), 1u);  // 10 ÷ 100 s against 3 ÷ 10 s
}

TEST(LeastWork, TiesGoToTheMoreCapableThenTheFirst) {
  std::vector<InstanceView> instances = {instance(10, 9, 0), instance(20, 9, 1),
                                         instance(20, 9, 1)};
  EXPECT_EQ(route_least_work(instances, 1), 1u);
}

TEST(Routes, NothingWithoutCreditOrOfAnotherRevision) {
  for (const Route& route : routes()) {
    std::vector<InstanceView> instances = {instance(10, 0), instance(10)};
    instances[1].revision = 2;
    EXPECT_EQ(route.choose(instances, 1), std::nullopt) << route.name;
    EXPECT_EQ(route.choose(instances, 2), 1u) << route.name;
    EXPECT_EQ(route.choose({}, 1), std::nullopt) << route.name;
    EXPECT_EQ(find_route(route.name), &route);
  }
  EXPECT_EQ(find_route("nobody"), nullptr);
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
