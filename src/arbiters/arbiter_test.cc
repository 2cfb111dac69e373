// What every arbiter guarantees, event by event; arbiters/timeline_test.cc and
// arbiters/property_test.cc check shares over time.
#include "arbiters/arbiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Time kStart{std::chrono::hours(1)};

ShareClient client(ClientId id, int sm, int request, int limit, Position at = {}) {
  return {.id = id, .sm = {sm}, .quota = {{request}, {limit}}, .position = at};
}

std::vector<ClientId> granted(const Permits& permits) {
  std::vector<ClientId> ids;
  for (const Grant& g : permits.grant) ids.push_back(g.client);
  return ids;
}

class EveryArbiter : public testing::TestWithParam<std::string> {
 protected:
  Time ms(double t) const { return kStart + from_millis(t); }
  void add(const ShareClient& c) { ASSERT_TRUE(arbiter_->admit(c, kStart).ok()); }
  Permits want(ClientId id, double t) {
    arbiter_->want(id, true, ms(t));
    return arbiter_->step(ms(t));
  }
  // The client used its whole grant and stands at the gate.
  Permits spent(ClientId id, double busy_ms, double t) {
    arbiter_->charge(id, from_millis(busy_ms), ms(t), ms(t));
    arbiter_->drained(id, ms(t));
    return arbiter_->step(ms(t));
  }

  std::unique_ptr<Arbiter> arbiter_ = *make_arbiter(GetParam(), {});
};
INSTANTIATE_TEST_SUITE_P(, EveryArbiter, testing::ValuesIn(arbiter_names(DeviceKind::kCpu)),
                         [](const auto& info) { return std::string(info.param); });

// The arbiters whose permits exclude each other: they hold up to the device's sm together.
class ExclusiveArbiter : public EveryArbiter {};
INSTANTIATE_TEST_SUITE_P(, ExclusiveArbiter,
                         testing::Values("planned", "deadline", "window", "multi_token", "tgs"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EveryArbiter, GrantsAQuotasWorthAndThenNothingUntilTheWindowsEnd) {
  add(client(1, 1000, 200, 200));
  const Permits first = want(1, 0);
  ASSERT_THAT(granted(first), ElementsAre(1));
  EXPECT_EQ(first.grant[0].budget, Millis(4));
  const Permits second = spent(1, 4, 4);
  EXPECT_THAT(second.grant, IsEmpty());
  EXPECT_EQ(second.next, ms(20));
  EXPECT_THAT(granted(arbiter_->step(ms(20))), ElementsAre(1));
}

TEST_P(EveryArbiter, AChangedQuotaTakesEffectInTheVeryNextStep) {
  add(client(1, 1000, 200, 200));
  want(1, 0);
  EXPECT_THAT(spent(1, 4, 4).grant, IsEmpty());
  add(client(1, 1000, 800, 800));
  const Permits more = arbiter_->step(ms(5));
  ASSERT_THAT(granted(more), ElementsAre(1));
  EXPECT_EQ(more.grant[0].budget, Millis(12));
}

TEST_P(EveryArbiter, LeavesAPermitWithAnIdleClientAndWakesForNothing) {
  add(client(1, 1000, 500, 1000));
  want(1, 0);
  arbiter_->want(1, false, ms(1));
  EXPECT_THAT(arbiter_->step(ms(1)).revoke, IsEmpty());
  Permits permits;
  for (int window = 1; window <= 3; ++window) {
    arbiter_->charge(1, Nanos(0), ms(20 * window), ms(20 * window));
    permits = arbiter_->step(ms(20 * window));
    EXPECT_THAT(permits.revoke, IsEmpty());
  }
  EXPECT_EQ(permits.next, Time::max());
}

TEST_P(ExclusiveArbiter, TakesAParkedPermitBackWhenSomebodyWantsTheRoom) {
  add(client(1, 1000, 500, 1000));
  add(client(2, 1000, 500, 1000, {.time_begin = {500}}));
  want(1, 0);
  arbiter_->want(1, false, ms(1));
  arbiter_->charge(1, Nanos(0), ms(1), ms(1));
  const Permits revocation = want(2, 2);
  EXPECT_THAT(revocation.revoke, ElementsAre(1));
  EXPECT_THAT(revocation.grant, IsEmpty()) << "the room is not free before it is drained";
  arbiter_->drained(1, ms(2.01));
  EXPECT_THAT(granted(arbiter_->step(ms(2.01))), ElementsAre(2));
}

TEST_P(ExclusiveArbiter, AHolderThatNeverDrainsKeepsItsRoomForTheDrainBound) {
  add(client(1, 1000, 500, 1000));
  add(client(2, 1000, 500, 1000, {.time_begin = {500}}));
  want(1, 0);
  arbiter_->want(1, false, ms(1));
  want(2, 2);
  EXPECT_THAT(arbiter_->step(ms(201)).grant, IsEmpty());
  EXPECT_THAT(granted(arbiter_->step(ms(202))), ElementsAre(2));
}

TEST_P(ExclusiveArbiter, ADeadClientsRoomIsFreeAtOnce) {
  add(client(1, 1000, 500, 1000));
  add(client(2, 1000, 500, 1000, {.time_begin = {500}}));
  want(1, 0);
  want(2, 2);
  arbiter_->remove(1, ms(3));
  EXPECT_THAT(granted(arbiter_->step(ms(3))), ElementsAre(2));
}

TEST_P(EveryArbiter, IgnoresEventsAboutClientsThatItDoesNotKnow) {
  arbiter_->want(9, true, kStart);
  arbiter_->charge(9, Millis(1), kStart, kStart);
  arbiter_->drained(9, kStart);
  arbiter_->remove(9, kStart);
  const Permits permits = arbiter_->step(kStart);
  EXPECT_THAT(permits.grant, IsEmpty());
  EXPECT_EQ(permits.next, Time::max());
}

TEST_P(EveryArbiter, TimeStandsStillWhileTheClockIsBehind) {
  add(client(1, 1000, 200, 200));
  want(1, 10);
  spent(1, 4, 14);
  EXPECT_THAT(arbiter_->step(ms(-100)).grant, IsEmpty());
  EXPECT_THAT(granted(arbiter_->step(ms(20))), ElementsAre(1));
}

TEST_P(EveryArbiter, TakesHintsOfAnybodyAndOfNobody) {
  add(client(1, 1000, 200, 200));
  arbiter_->iteration(1, Millis(3), 0, ms(-5));
  arbiter_->iteration(1, Nanos(-1), 0, ms(0));
  arbiter_->deadline(1, Time::max(), ms(0));
  arbiter_->deadline(1, Time{}, ms(-5));
  arbiter_->iteration(9, Millis(3), 0, ms(0));
  arbiter_->deadline(9, ms(1), ms(0));
  EXPECT_THAT(granted(want(1, 0)), ElementsAre(1));
}

TEST_P(EveryArbiter, IsCalledWhatItIsMadeBy) {
  EXPECT_EQ(arbiter_->name(), GetParam());
}

TEST(MakeArbiter, RefusesNamesAndWindowsThatItDoesNotHave) {
  EXPECT_EQ(make_arbiter("fair", {}).error().message,
            "arbiter: \"fair\" is none of planned, deadline, window, multi_token, introspective, "
            "share_fixed_limit, share_fixed_request, tgs, shares");
  EXPECT_THAT(make_arbiter("planned", {.window = Micros(10)}).error().message,
              HasSubstr("at least 2 ms"));
}

struct Refusal {
  const char* arbiter;
  std::vector<ShareClient> accepted;
  ShareClient refused;
  ErrorKind kind;
  const char* message;
};

TEST(Admit, RefusesWhatCannotBeKeptAndNamesTheNumbers) {
  const Refusal refusals[] = {
      {"planned",
       {client(1, 600, 500, 1000)},
       client(2, 400, 300, 300, {{500}, {200}}),
       ErrorKind::kExhausted,
       "position: client 2 (sm 500 … 900 ‰, time 200 … 500 ‰) overlaps client 1 (sm 0 … 600 ‰, "
       "time 0 … 500 ‰)"},
      {"planned",
       {},
       client(2, 400, 300, 300, {{700}, {0}}),
       ErrorKind::kInvalid,
       "position: client 2 (sm 700 … 1100 ‰, time 0 … 300 ‰) does not lie within 0 … 1000 ‰"},
      {"window",
       {client(1, 400, 600, 600)},
       client(2, 400, 500, 500),
       ErrorKind::kExhausted,
       "client 2: lane at 0 ‰, sm 400 ‰: requests would add up to 1100 ‰ of 1000 ‰"},
      {"window",
       {client(1, 400, 100, 600)},
       client(2, 300, 100, 500, {{200}, {0}}),
       ErrorKind::kExhausted,
       "client 2: lane at 200 ‰, sm 300 ‰: overlaps the lane at 0 ‰, sm 400 ‰"},
      {"multi_token",
       {client(1, 1000, 600, 600)},
       client(2, 500, 900, 900),
       ErrorKind::kExhausted,
       "client 2: sm 500 ‰ × request 900 ‰: the areas would add up to 1050 of 1000 ‰"},
      {"introspective",
       {client(1, 1000, 600, 600)},
       client(2, 1000, 500, 900),
       ErrorKind::kExhausted,
       "client 2: sm 1000 ‰ × request 500 ‰: the areas would add up to 1100 of 1000 ‰"},
      {"share_fixed_request",
       {},
       client(2, 1000, 0, 900),
       ErrorKind::kInvalid,
       "client 2: request: 0 ‰ is all that it would ever get"},
  };
  for (const Refusal& r : refusals) {
    const auto arbiter = *make_arbiter(r.arbiter, {});
    for (const ShareClient& c : r.accepted) ASSERT_TRUE(arbiter->admit(c, kStart).ok());
    const Result<void> result = arbiter->admit(r.refused, kStart);
    ASSERT_FALSE(result.ok()) << r.message;
    EXPECT_EQ(result.error().kind, r.kind);
    EXPECT_EQ(result.error().message, r.message);
  }
}

TEST(Admit, TakesRequestsThatFillTheDeviceExactly) {
  for (const std::string& name : arbiter_names(DeviceKind::kCpu)) {
    const auto arbiter = *make_arbiter(name, {});
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(arbiter->admit(client(i, 1000, 50, 50, {{0}, {50 * i}}), kStart).ok()) << name;
    }
    EXPECT_FALSE(arbiter->admit(client(20, 1000, 1, 1, {{0}, {950}}), kStart).ok()) << name;
    EXPECT_TRUE(arbiter->admit(client(3, 1000, 20, 50, {{0}, {150}}), kStart).ok()) << name;
  }
}

TEST(Kinds, AGpuRunsSharesInPlaceOfABundlesPlannedAndElseWhatTheBundleNames) {
  EXPECT_EQ(default_arbiter(DeviceKind::kCpu), "planned");
  EXPECT_EQ(default_arbiter(DeviceKind::kCuda), "shares");
  for (const std::string& name : arbiter_names()) {
    EXPECT_EQ(arbiter_on(DeviceKind::kCpu, name), name);
    EXPECT_EQ(arbiter_on(DeviceKind::kCuda, name), name == "planned" ? "shares" : name);
  }
}

TEST(Kinds, AGpuCanRunAllAndACpuAllButShares) {
  for (const std::string& name : arbiter_names()) {
    EXPECT_TRUE(check_arbiter(name, DeviceKind::kCuda).ok()) << name;
    EXPECT_EQ(check_arbiter(name, DeviceKind::kCpu).ok(), name != "shares") << name;
  }
  EXPECT_EQ(check_arbiter("shares", DeviceKind::kCpu).error().message,
            "arbiter: 'shares' is none of planned, deadline, window, multi_token, introspective, "
            "share_fixed_limit, share_fixed_request, tgs, which a CPU can run");
  EXPECT_THAT(check_arbiter("fair", DeviceKind::kCuda).error().message,
              HasSubstr("tgs, shares, which a GPU can run"));
}

TEST(Windows, AreThoseThatAnArbiterIsMeantFor) {
  EXPECT_EQ(window_of("introspective"), Millis(5));
  EXPECT_EQ(window_of("planned"), Millis(20));
  for (const std::string& name : arbiter_names())
    EXPECT_TRUE(make_arbiter(name, {.window = window_of(name)}).ok()) << name;
}

}  // namespace
}  // namespace sluice::policy
