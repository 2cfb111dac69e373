// plan_fapes: rounds of FaPES on clusters whose jobs train as planned, slower, or faster.
#include "policy/plan/plan_fapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/plan/fapes_memory.h"
#include "tests/support/deal_table.h"
#include "tests/support/job_cluster.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr BatchRange kLargeBatch{.least = 6400, .most = 6400};
constexpr double kRoundSeconds = 600;

// Nodes whose jobs train between two rounds.
class FapesWorld {
 public:
  explicit FapesWorld(std::vector<int> devices) : devices_(std::move(devices)) {}

  // A job of so many device-seconds, of which a device does one in 1 ÷ speed seconds.
  void submit(const std::string& name, double device_seconds, DealtJob shape = {}) {
    if (!shape.step) {
      shape.step = step_linear();
      shape.batch = kLargeBatch;
    }
    shape.samples = static_cast<int64_t>(device_seconds * 1000);
    jobs_[name] = {shape, now_, now_};
    order_.push_back(name);
  }
  void finish(const std::string& name) {
    jobs_.erase(name);
    std::erase(order_, name);
  }

  // Deals a round, and lets it pass.
  void round() {
    table_.emplace(devices_, 1);
    DealTable& t = *table_;
    t.memory = memory_;
    t.table.now = Time(from_seconds(now_));
    for (const std::string& name : order_) {
      const Trained& j = jobs_.at(name);
      Contender& c = t.job(name, j.shape);
      c.age = from_seconds(now_ - j.submitted);
      c.attained = j.attained;
      if (j.shape.now.empty()) c.waited = from_seconds(now_ - j.last_ran);
    }
    dealt_ = fapes(t.table, settings);
    memory_ = t.memory;
    before_ = order_;
    if (check) check(t, dealt_);
    train();
  }
  Placed dealt(const std::string& name) const {
    const auto at = std::ranges::find(before_, name);
    return at == before_.end() ? Placed{} : dealt_[static_cast<size_t>(at - before_.begin())];
  }
  int workers(const std::string& name) const { return workers_in(dealt(name)); }
  bool has(const std::string& name) const { return jobs_.contains(name); }
  size_t jobs() const { return jobs_.size(); }
  double now() const { return now_; }

  FapesSettings settings;
  double speed = 1;  // of what the jobs' models say
  std::function<void(DealTable&, const Dealt&)> check;

 private:
  struct Trained {
    DealtJob shape;
    double submitted = 0, last_ran = 0, attained = 0;
  };

  void train() {
    now_ += kRoundSeconds;
    for (size_t i = 0; i < before_.size(); ++i) {
      Trained& j = jobs_.at(before_[i]);
      const Placed& placed = dealt_[i];
      const bool changed = placed != j.shape.now;
      const double useful = kRoundSeconds - (changed ? seconds(settings.restart) : 0);
      j.shape.now = placed;
      if (placed.empty()) continue;
      j.last_ran = now_;
      j.attained += workers_in(placed) * kRoundSeconds;
      const double throughput =
          table_->table.jobs[i].throughput(workers_in(placed), static_cast<int>(placed.size()));
      j.shape.done += static_cast<int64_t>(throughput * useful * speed) + 1;
      if (j.shape.done >= j.shape.samples) finish(before_[i]);
    }
  }

  std::vector<int> devices_;
  std::map<std::string, Trained> jobs_;
  std::vector<std::string> order_, before_;
  std::optional<DealTable> table_;
  Memory memory_;
  Dealt dealt_;
  double now_ = 1000;
};

TEST(Fapes, JobsStartAndKeepTheirPlans) {
  FapesWorld w({8, 8});
  w.submit("a", 5000);
  w.submit("b", 5000);
  w.round();
  EXPECT_THAT(w.dealt("a"), Not(IsEmpty()));
  while (w.jobs() > 0) w.round();
  EXPECT_LE(w.now(), 1000 + 4 * kRoundSeconds);
}

TEST(Fapes, WithoutDevicesNothingIsDealt) {
  DealTable t({0});
  t.job("a", {.step = step_linear()});
  EXPECT_THAT(fapes(t.table, {}), ElementsAre(IsEmpty()));
  DealTable none({});
  EXPECT_THAT(fapes(none.table, {}), IsEmpty());
}

TEST(Fapes, AnUnmeasuredJobHasAGranuleUntilItIsMeasured) {
  DealTable t({8});
  t.job("a", {});
  const Dealt first = fapes(t.table, {});
  EXPECT_THAT(first, ElementsAre(ElementsAre(Pair(0, 2))));
  DealTable then({8});
  then.memory = t.memory;
  then.table.now += Seconds(600);
  then.job("a",
           {.step = step_linear(), .batch = kLargeBatch, .samples = 9'000'000, .now = first[0]});
  EXPECT_GT(workers_in(fapes(then.table, {})[0]), 2);
}

TEST(Fapes, AJobThatOutlivesItsPlanKeepsItsDevices) {
  FapesWorld w({4});
  w.speed = 0.8;
  w.submit("slow", 1000);
  w.round();
  const Placed before = w.dealt("slow");
  w.submit("next", 1000);
  w.submit("last", 1000);
  w.round();
  EXPECT_EQ(w.dealt("slow"), before);
  EXPECT_THAT(w.dealt("next"), Not(IsEmpty()));
}

TEST(Fapes, AJobThatEndsEarlyGivesItsRoundsBack) {
  FapesWorld w({2});
  w.submit("first", 6000);
  w.submit("second", 1000);
  w.round();
  EXPECT_EQ(w.workers("first") + w.workers("second"), 2);
  const std::string runs = w.workers("first") > 0 ? "first" : "second";
  const std::string waits = runs == "first" ? "second" : "first";
  w.finish(runs);
  w.round();
  EXPECT_EQ(w.workers(waits), 2);
}

TEST(Fapes, AJobThatDoesBadlyIsPlannedAnewWithANewOne) {
  // "apart" is over two nodes, where it does a sixth of what it would do on one.
  const DealtJob apart = {
      .step = step_within_a_node(), .samples = 7'000'000, .now = {{0, 4}, {1, 4}}};
  DealTable t({4, 4});
  t.job("apart", apart);
  const FapesRecord record{.schedule = Schedule(10, apart.now), .planned = true, .measured = true};
  FapesMemory(t.table, Seconds(600)).remember({record}, Board({4, 4}, 4));
  t.job("new", {.step = step_within_a_node(), .samples = 7'000'000});
  const Dealt dealt = fapes(t.table, {});
  EXPECT_THAT(dealt[0], testing::SizeIs(1));
  EXPECT_THAT(dealt[1], testing::SizeIs(1));
}

TEST(Fapes, ALostNodeMovesItsJobs) {
  DealTable t({4, 4});
  t.table.names = {"left", "right"};
  t.job("a", {.step = step_linear(), .batch = kLargeBatch, .samples = 5'000'000});
  const Dealt first = fapes(t.table, {});
  DealTable then({4});
  then.memory = t.memory;
  then.table.names = {"right"};
  then.table.now += Seconds(600);
  then.job("a", {.step = step_linear(),
                 .batch = kLargeBatch,
                 .samples = 5'000'000,
                 .done = 1'000'000,
                 .now = {{0, 4}}});
  EXPECT_THAT(fapes(then.table, {})[0], ElementsAre(Pair(0, testing::Le(4))));
}

TEST(Fapes, ANoiseThatHasDoubledIsPlannedFor) {
  DealtJob shape = {
      .step = step_linear(), .batch = kLargeBatch, .noise = 10, .samples = 20'000'000};
  DealTable t({2});
  t.job("a", shape);
  shape.now = fapes(t.table, {})[0];
  shape.done = 1'200'000;
  const auto noise_of_plan = [&](double noise) {
    DealTable then({2});
    then.memory = t.memory;
    then.table.now += Seconds(600);
    shape.noise = noise;
    then.job("a", shape);
    fapes(then.table, {});
    return FapesMemory(then.table, Seconds(600)).of(0).noise;
  };
  EXPECT_EQ(noise_of_plan(19), 10) << "the plan stays";
  EXPECT_EQ(noise_of_plan(21), 21);
}

TEST(Fapes, EqualInputsGiveEqualDeals) {
  const auto play = [] {
    FapesWorld w({8, 8, 4});
    std::vector<Dealt> deals;
    w.check = [&](DealTable&, const Dealt& d) { deals.push_back(d); };
    for (int i = 0; i < 8; ++i) {
      w.submit("j" + std::to_string(i), 2000 + 700 * i);
      w.round();
    }
    return deals;
  };
  EXPECT_EQ(play(), play());
}

// What others lack: the least devices of a job, in each of the rounds that it would need.
bool would_fit(const Board& board, const Contender& waits, const Schedule& instead) {
  Board free = board;
  free.remove(instead);
  const double of_round = waits.throughput(2, 1) * kRoundSeconds;
  const auto rounds = static_cast<size_t>(std::ceil((waits.left() + 1e4) / of_round)) + 1;
  for (size_t r = 0; r < std::min(rounds, free.rounds()); ++r)
    if (free.free(r) < 2) return false;
  return rounds <= free.rounds();
}

// Random arrivals of linear jobs. No device is dealt twice, all jobs complete, and none that has
// waited three rounds is passed over: by a job that comes after it, or for a free device.
TEST(Fapes, NoJobWaitsLongWhileALaterOneStarts) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<int> devices;
    for (uint64_t n = 1 + random.below(4); n > 0; --n)
      devices.push_back(static_cast<int>(2 * random.between(1, 4)));
    FapesWorld w(devices);
    w.speed = 0.9 + 0.2 * random.uniform();
    w.check = [&](DealTable& t, const Dealt& dealt) {
      Board board(devices, 48);
      const FapesMemory memory(t.table, w.settings.round);
      std::vector<Schedule> plans;
      for (size_t j = 0; j < dealt.size(); ++j) {
        plans.push_back(memory.of(j).schedule);
        ASSERT_TRUE(board.fits(plans[j])) << "a device is held twice";
        board.add(plans[j]);
        EXPECT_EQ(dealt[j], plans[j].empty() ? Placed{} : plans[j][0]);
      }
      for (size_t a = 0; a < dealt.size(); ++a) {
        const Contender& waits = t.table.jobs[a];
        if (!dealt[a].empty() || !waits.now.empty() || waits.waited < Seconds(1800)) continue;
        board.remove(plans[a]);
        EXPECT_FALSE(would_fit(board, waits, {})) << "devices are free";
        for (size_t b = 0; b < dealt.size(); ++b) {
          const Contender& starts = t.table.jobs[b];
          const bool is_later =
              starts.waited < waits.waited &&
              (waits.attained > 0 || starts.attained <= 0 || starts.waited < Seconds(1800));
          if (dealt[b].empty() || !starts.now.empty() || !is_later) continue;
          EXPECT_FALSE(would_fit(board, waits, plans[b])) << "a later one has its devices";
        }
        board.add(plans[a]);
      }
    };
    for (int i = 0; i < 60; ++i) {
      for (int n = 0; n < 3 && random.chance(0.3); ++n)
        w.submit("j" + std::to_string(i) + "-" + std::to_string(n),
                 static_cast<double>(random.between(200, 8000)));
      w.round();
    }
    for (int i = 0; i < 500 && w.jobs() > 0; ++i) w.round();
    EXPECT_EQ(w.jobs(), 0u) << "a job never completes";
  }
}

TEST(Fapes, ThePlanDealsGranulesInRounds) {
  JobCluster c(4);
  c.plan = "fapes";
  c.job("a");
  c.tick();
  EXPECT_EQ(c.workers("a"), "d0 d1") << "it was never measured";
  EXPECT_THAT(c.tick(Seconds(30)), IsEmpty());
  c.state("a").step = step_linear();
  c.state("a").batch = 6400;
  c.state("a").samples = 9'000'000;
  EXPECT_THAT(c.tick(Seconds(30)), IsEmpty()) << "a round lasts ten minutes";
  c.tick(Seconds(600));
  EXPECT_EQ(c.workers("a"), "d0 d1 d2 d3");
}

TEST(Fapes, ACordonedDeviceShrinksTheJobThere) {
  JobCluster c(4);
  c.plan = "fapes";
  c.job("a");
  c.state("a").step = step_linear();
  c.state("a").batch = 6400;
  c.state("a").samples = 9'000'000;
  c.tick();
  ASSERT_EQ(c.workers("a"), "d0 d1 d2 d3");
  c.device("d3").drained = true;
  c.tick();
  EXPECT_EQ(c.workers("a"), "d0 d1 d2");
  c.tick(Seconds(600));
  EXPECT_EQ(c.workers("a"), "d0 d1 d2");
}

}  // namespace
}  // namespace sluice::policy
