// Dilu's Algorithm 2, window by window (of 5 ms, as in the paper): what each state issues.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/support/arbiter_simulation.h"

namespace sluice::policy {
namespace {

constexpr Time kStart{std::chrono::hours(1)};  // at a window's end
constexpr ArbiterConfig kDilu = {.window = Millis(5)};
constexpr ClientId kServer = 1, kTrainer = 2;
// In shares of the window, of 5 ms.
constexpr double kServersRequest = 0.4, kServersLimit = 0.8;
constexpr double kTrainersRequest = 0.3, kTrainersLimit = 0.9;

ShareClient client(ClientId id, int sm, double request, double limit, bool has_slo) {
  const auto share = [](double s) { return Share{static_cast<int>(1000 * s + 0.5)}; };
  return {.id = id, .sm = {sm}, .quota = {share(request), share(limit)}, .has_slo = has_slo};
}

// A server with an objective and a trainer, each on the whole device. Both hold their tokens from a
// window's begin, and use them up.
class Introspective : public testing::Test {
 protected:
  Introspective() {
    admit(client(kServer, 1000, kServersRequest, kServersLimit, true));
    admit(client(kTrainer, 1000, kTrainersRequest, kTrainersLimit, false));
  }

  void admit(const ShareClient& c) {
    ASSERT_TRUE(arbiter_->admit(c, now_).ok());
    works_[c.id] = true;
  }
  void remove(ClientId id) {
    arbiter_->remove(id, now_);
    works_.erase(id);
  }
  // The server's iterations end now.
  void iterate(double cycle_ms, int times = 1, uint32_t kind = 0) {
    for (int i = 0; i < times; ++i) arbiter_->iteration(kServer, from_millis(cycle_ms), kind, now_);
  }
  // Plays a window to its end. Returns what was issued for it, as a share.
  std::map<ClientId, double> window() {
    for (const auto& [id, works] : works_) arbiter_->want(id, works, now_);
    std::map<ClientId, double> issued;
    std::map<ClientId, Nanos> used;
    for (const Grant& g : arbiter_->step(now_).grant) {
      if (!works_[g.client]) continue;
      used[g.client] = g.budget;
      issued[g.client] = static_cast<double>(g.budget.count()) / 5e6;
    }
    now_ += Millis(5);
    for (const auto& [id, works] : works_) {
      arbiter_->charge(id, used[id], now_ - Nanos(1), now_ - Nanos(1));
      arbiter_->drained(id, now_ - Nanos(1));
    }
    return issued;
  }
  void windows(int n) {
    for (int i = 0; i < n; ++i) window();
  }
  // Both busy, the server's iterations as fast as ever.
  void settle() {
    windows(2);
    iterate(10);
  }

  std::unique_ptr<Arbiter> arbiter_ = *make_arbiter("introspective", kDilu);
  Time now_ = kStart;
  std::map<ClientId, bool> works_;
};

constexpr double kAbout = 0.011;  // a least grant of 50 µs

TEST_F(Introspective, AloneATrainerHasItsLimit) {
  remove(kServer);
  EXPECT_NEAR(window()[kTrainer], kTrainersLimit, kAbout);
}

TEST_F(Introspective, BusyTogetherEachHasItsRequest) {
  settle();
  const auto issued = window();
  EXPECT_NEAR(issued.at(kServer), kServersRequest, kAbout);
  const auto later = window();
  EXPECT_NEAR(later.at(kTrainer), issued.at(kTrainer), kAbout) << "contention changes nothing";
}

TEST_F(Introspective, EachKeepsItsTokensWhateverTheOthersDo) {
  settle();
  window();
  for (const auto& [id, works] : works_) arbiter_->want(id, works, now_);
  const Permits begin = arbiter_->step(now_);
  ASSERT_EQ(begin.grant.size(), 2U);
  EXPECT_EQ(begin.next, now_ + kDilu.window);
  // The server's kernel runs on beyond its tokens; the trainer has used few of its own.
  const Time later = now_ + Millis(4);
  arbiter_->charge(kServer, Millis(4), later, later);
  arbiter_->charge(kTrainer, Micros(500), later, later);
  const Permits permits = arbiter_->step(later);
  EXPECT_TRUE(permits.revoke.empty());
  EXPECT_TRUE(permits.grant.empty());
  now_ += kDilu.window;
  arbiter_->charge(kTrainer, Nanos(0), now_, now_);
  const auto issued = window();
  EXPECT_FALSE(issued.contains(kServer)) << "4 ms are two windows' tokens";
  EXPECT_NEAR(issued.at(kTrainer), millis(begin.grant[1].budget) / 5, kAbout) << "no more";
  EXPECT_NEAR(window().at(kServer), kServersRequest, kAbout);
}

TEST_F(Introspective, ALongCycleIsAnEmergencyThatTheOthersPayFor) {
  settle();
  iterate(20);
  const auto issued = window();
  EXPECT_NEAR(issued.at(kServer), kServersLimit, kAbout);
  EXPECT_NEAR(issued.at(kTrainer), kTrainersRequest / 2, kAbout);
  EXPECT_NEAR(window()[kTrainer], kTrainersRequest / 4, kAbout) << "and again, while it lasts";
}

TEST_F(Introspective, TheWorstStarvationOfAllIsClampedNotIgnored) {
  settle();
  iterate(400);
  const auto issued = window();
  EXPECT_NEAR(issued.at(kServer), kServersLimit, kAbout);
  EXPECT_NEAR(issued.at(kTrainer), kTrainersRequest / 4, kAbout);
}

TEST_F(Introspective, AnEmergencyLastsUntilTheCycleIsNearTheShortest) {
  settle();
  iterate(20);
  window();
  iterate(14);  // below the mark that raises one
  EXPECT_NEAR(window()[kServer], kServersLimit, kAbout);
  iterate(11.5);
  EXPECT_NEAR(window()[kServer], kServersRequest, kAbout);
}

TEST_F(Introspective, FiveCalmIterationsGiveTheOthersAThirdMore) {
  settle();
  iterate(20);
  windows(2);
  iterate(10);
  const double low = window()[kTrainer];
  EXPECT_NEAR(window()[kTrainer], low, kAbout);
  iterate(10, 4);
  EXPECT_NEAR(window()[kTrainer], 1.3 * low, kAbout);
  EXPECT_NEAR(window()[kTrainer], 1.3 * low, kAbout) << "once";
}

TEST_F(Introspective, AnIdleServerGivesTheTrainerMoreAndMoreUpToItsLimit) {
  settle();
  works_[kServer] = false;
  windows(100);
  const double first = window()[kTrainer], second = window()[kTrainer];
  EXPECT_GT(second, 1.1 * first);
  windows(10);
  EXPECT_NEAR(window()[kTrainer], kTrainersLimit, kAbout);
}

TEST_F(Introspective, WhileTheOthersAreIdleAServerGrowsToItsLimit) {
  settle();
  works_[kTrainer] = false;
  windows(110);
  EXPECT_NEAR(window()[kServer], kServersLimit, kAbout);
}

TEST_F(Introspective, AnEmergencyEndsWithItsInstance) {
  settle();
  iterate(40);
  windows(3);
  remove(kServer);
  EXPECT_NEAR(window()[kTrainer], kTrainersLimit, kAbout);
}

TEST_F(Introspective, AnEmergencyEndsWhenItsInstanceFallsIdleOrSilent) {
  settle();
  iterate(40);
  EXPECT_NEAR(window()[kServer], kServersLimit, kAbout);
  windows(200);  // a second without an iteration: the cycle is unknown
  EXPECT_NEAR(window()[kServer], kServersRequest, kAbout);
  iterate(40);
  works_[kServer] = false;
  windows(101);
  works_[kServer] = true;
  EXPECT_NEAR(window()[kServer], kServersRequest, kAbout);
}

TEST_F(Introspective, AnEmergencyConcernsOneDevice) {
  const auto other = *make_arbiter("introspective", kDilu);
  const auto grown = *make_arbiter("introspective", kDilu);  // the same without an emergency here
  for (Arbiter* a : {other.get(), grown.get()}) {
    ASSERT_TRUE(a->admit(client(kServer, 1000, 0.4, 0.8, true), now_).ok());
    ASSERT_TRUE(a->admit(client(kTrainer, 1000, 0.3, 0.9, false), now_).ok());
    a->want(kTrainer, true, now_);
  }
  const Permits before = grown->step(now_);
  settle();
  iterate(40);
  windows(3);
  EXPECT_EQ(other->step(kStart).grant, before.grant);
}

TEST_F(Introspective, OneOddIterationDoesNotRuleForEver) {
  settle();
  iterate(5);
  iterate(10);
  EXPECT_NEAR(window()[kServer], kServersLimit, kAbout);
  for (int s = 0; s < 60; ++s) {
    windows(200);
    iterate(10);
  }
  EXPECT_NEAR(window()[kServer], kServersRequest, kAbout);
}

// Dilu has another ratio for language models.
TEST_F(Introspective, ASliceMaySayWhatItBears) {
  settle();
  iterate(14);
  EXPECT_NEAR(window()[kServer], kServersRequest, kAbout);
  ShareClient language_model = client(kServer, 1000, kServersRequest, kServersLimit, true);
  language_model.tolerance = 1300;
  admit(language_model);
  EXPECT_NEAR(window()[kServer], kServersLimit, kAbout);
}

TEST_F(Introspective, ACycleComparesWithThoseOfItsKindAlone) {
  constexpr uint32_t kOneRequest = 1, kEight = 8;
  settle();
  iterate(10, 1, kOneRequest);
  iterate(60, 1, kEight);
  EXPECT_NEAR(window()[kServer], kServersRequest, kAbout) << "the first of its kind says nothing";
  iterate(61, 1, kEight);
  iterate(10, 1, kOneRequest);
  EXPECT_NEAR(window()[kServer], kServersRequest, kAbout);
  iterate(20, 1, kOneRequest);
  EXPECT_NEAR(window()[kServer], kServersLimit, kAbout);
}

TEST_F(Introspective, OfManyKindsTheLastAreKnown) {
  settle();
  for (uint32_t kind = 0; kind < 40; ++kind) {
    iterate(10, 1, kind);
    now_ += Millis(1);
  }
  iterate(20, 1, 3);
  EXPECT_NEAR(window()[kServer], kServersRequest, kAbout) << "forgotten, and so the first";
  iterate(20, 1, 39);
  EXPECT_NEAR(window()[kServer], kServersLimit, kAbout);
}

TEST_F(Introspective, AResizedClientStartsAtItsNewRequest) {
  settle();
  window();
  admit(client(kTrainer, 1000, 0.6, 0.9, false));
  EXPECT_NEAR(window()[kTrainer], 0.6, kAbout);
}

// Dilu's `Max`, the most tokens that a period can hold, is a number of blocks, the same for all
// GPUs and programs. In busy time it is the period on each of them, so a share of it is that share
// of the device, whatever a program's kernels are.
TEST(IntrospectiveDevice, ATokensShareIsThatShareOfTheDeviceWhateverRunsOnIt) {
  for (const Nanos kernel : {Micros(20), Micros(300), Micros(4000)}) {
    Simulation device("introspective", 1, kDilu);
    ASSERT_TRUE(device.add(client(kServer, 1000, 0.2, 0.35, false), greedy(kernel)).ok());
    ASSERT_TRUE(device.add(client(kTrainer, 1000, 0.3, 0.5, false), greedy(kernel)).ok());
    device.run(Seconds(21));
    const auto share = [&](ClientId id) {
      return seconds(device.used(id, Seconds(1), Seconds(21))) / 20;
    };
    EXPECT_NEAR(share(kServer), 0.35, 0.01) << kernel.count();
    EXPECT_NEAR(share(kTrainer), 0.5, 0.01) << kernel.count();
  }
}

// The same on a device that is a share of a core, whose holder runs faster than the window passes.
TEST(IntrospectiveDevice, ATokensShareIsThatOfTheDeviceAlsoWhereItIsAShareOfACore) {
  ArbiterConfig share_of_a_core = kDilu;
  share_of_a_core.pace = 1250;
  Simulation device("introspective", 1, share_of_a_core);
  ASSERT_TRUE(device.add(client(kTrainer, 1000, 0.3, 0.5, false), greedy(Micros(300))).ok());
  device.run(Seconds(21));
  EXPECT_NEAR(seconds(device.used(kTrainer, Seconds(1), Seconds(21))) / 20, 0.5, 0.01);
}

// The device is shared by those that run: the server has more than its request when it is slow, and
// the trainer when it is not.
TEST(IntrospectiveDevice, ServesFasterAndTrainsMoreThanFixedRequests) {
  struct Outcome {
    Nanos p95;
    double trained;
  };
  const auto play = [](std::string_view arbiter) {
    Simulation device(arbiter, 1, kDilu);
    EXPECT_TRUE(device
                    .add(client(kServer, 1000, 0.4, 0.6, true),
                         serving(Micros(250), 40, Millis(50), Millis(40)))
                    .ok());
    EXPECT_TRUE(device.add(client(kTrainer, 1000, 0.5, 1, false), training(Micros(250), 100)).ok());
    device.run(Seconds(60));
    std::vector<Nanos> all = device.latencies(kServer);
    std::sort(all.begin(), all.end());
    return Outcome{all.at(all.size() * 95 / 100),
                   seconds(device.used(kTrainer, Seconds(0), Seconds(60))) / 60};
  };
  const Outcome dilu = play("introspective"), fixed = play("share_fixed_request");
  EXPECT_LT(dilu.p95, fixed.p95);
  EXPECT_GT(dilu.trained, 1.2 * fixed.trained);
}

}  // namespace
}  // namespace sluice::policy
