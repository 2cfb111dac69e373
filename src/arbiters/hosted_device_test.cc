// One device's host, step by step in virtual time: what it makes of observations.
// arbiters/timeline_test.cc and arbiters/property_test.cc check shares over time on the same host.
#include "arbiters/hosted_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/turns.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr Nanos kTurn = TestTurns::kTurn, kLease = TestTurns::kLease;
constexpr Nanos kLag = Millis(12);
constexpr Nanos kPause = Micros(20);  // between steps, at least

Time at(Nanos t) {
  return Time(std::chrono::hours(1)) + t;
}

// A client that rests: its threads are blocked, or have no work.
ClientObservation waits(ClientId id) {
  return {.client = id, .waiting = true, .want = true, .resting = true, .lag = kLag};
}
ClientObservation idle(ClientId id) {
  return {.client = id, .lag = kLag};
}
// A client that runs, and has used `busy` more until `now`.
ClientObservation runs(ClientId id, Nanos busy, Nanos now) {
  return {.client = id,
          .want = true,
          .resting = false,
          .readings = {{busy, at(now)}},
          .last_active = at(now),
          .lag = kLag};
}
// A client that was stopped while it waited: its page still says that it waits, and that it never
// rested.
ClientObservation stopped(ClientId id) {
  return {.client = id, .waiting = true, .want = true, .resting = false, .lag = kLag};
}

std::vector<ClientId> granted(const PermitWrites& writes) {
  std::vector<ClientId> ids;
  for (const Grant& g : writes.grant) ids.push_back(g.client);
  return ids;
}

ShareClient share(ClientId id, int request = 200) {
  return {.id = id, .sm = kWhole, .quota = {{request}, {request}}};
}

class HostedDeviceTest : public testing::Test {
 protected:
  void admit(std::initializer_list<ClientId> ids) {
    for (const ClientId id : ids) ASSERT_TRUE(device.admit(share(id), at(Nanos(0))).ok());
  }
  PermitWrites step(Nanos now, const std::vector<ClientObservation>& seen) {
    return device.step(at(now), seen);
  }
  PermitWrites resume(const std::vector<Quiescence>& revoked) { return device.resume(revoked); }
  bool wants(ClientId id) const { return device.find(id)->wanting; }
  bool holds(ClientId id) const { return device.find(id)->grant.has_value(); }

  std::shared_ptr<TestTurns::Log> log = std::make_shared<TestTurns::Log>();
  HostedDevice device{std::make_unique<TestTurns>(log), HostedDevice::Budgets::kCountedByClients};
};

TEST_F(HostedDeviceTest, GrantsAClientThatWaits) {
  admit({1});
  const PermitWrites writes = step(Nanos(0), {waits(1)});
  EXPECT_THAT(writes.grant, ElementsAre(Grant{1, kTurn, at(kLease)}));
  EXPECT_THAT(writes.revoke, IsEmpty());
}

TEST_F(HostedDeviceTest, TurnsGoRoundAmongThoseThatHaveWork) {
  admit({1, 2, 3});
  std::vector<ClientId> holders = granted(step(Nanos(0), {waits(1), waits(2), waits(3)}));
  for (Nanos now = kTurn; holders.size() < 6; now += kTurn) {
    std::vector<ClientObservation> seen = {waits(1), waits(2), waits(3)};
    seen[holders.back() - 1].readings = {{kTurn, at(now)}};
    ASSERT_THAT(step(now, seen).revoke, ElementsAre(holders.back()));
    const PermitWrites writes = resume({{holders.back(), at(now)}});
    ASSERT_EQ(writes.grant.size(), 1U);
    holders.push_back(writes.grant[0].client);
  }
  EXPECT_THAT(holders, ElementsAre(1, 2, 3, 1, 2, 3));
}

TEST_F(HostedDeviceTest, WhatTheArbiterRefusesChangesNothing) {
  admit({1});
  EXPECT_EQ(device.admit(share(1, 1001), at(Nanos(0))).error().kind, ErrorKind::kExhausted);
  EXPECT_EQ(device.admit(share(2, 1001), at(Nanos(0))).error().kind, ErrorKind::kExhausted);
  EXPECT_EQ(device.find(2), nullptr);
  EXPECT_THAT(granted(step(Nanos(0), {waits(1)})), ElementsAre(1));
}

TEST_F(HostedDeviceTest, WhatIsShownOfUnknownClientsIsIgnored) {
  admit({1});
  device.notify(9, at(Nanos(0)));
  device.leave(9, at(Nanos(0)));
  EXPECT_THAT(granted(step(Nanos(0), {waits(1), waits(9)})), ElementsAre(1));
  EXPECT_THAT(resume({{9, at(Nanos(0))}}).revoke, IsEmpty());
}

// --- the end of a permit -------------------------------------------------------------------------

struct End {
  const char* why;
  Nanos when;
  ClientObservation seen;
};
// Leaves the end of permits to the host.
class NeverRevokes : public TestTurns {
 public:
  explicit NeverRevokes(std::shared_ptr<int> decisions) : decisions_(std::move(decisions)) {}
  Permits step(Time now) override {
    ++*decisions_;
    Permits permits = TestTurns::step(now);
    permits.revoke.clear();
    return permits;
  }

 private:
  const std::shared_ptr<int> decisions_;
};

class EndOfAPermit : public testing::TestWithParam<End> {};
INSTANTIATE_TEST_SUITE_P(, EndOfAPermit,
                         testing::Values(End{"ItsBudgetIsSpentAsTheMeterShows", kTurn,
                                             runs(1, kTurn, kTurn)},
                                         End{"ItsBudgetIsSpentByItsOwnCount", kTurn, waits(1)},
                                         End{"ItsTimeIsOver", kLease, runs(1, Nanos(1), kLease)}),
                         [](const auto& info) { return std::string(info.param.why); });

// The arbiter decides once, with the space that the revocation freed.
TEST_P(EndOfAPermit, IsWrittenBeforeTheDecision) {
  const auto decisions = std::make_shared<int>(0);
  HostedDevice device(std::make_unique<NeverRevokes>(decisions),
                      HostedDevice::Budgets::kCountedByClients);
  for (const ClientId id : {1, 2}) ASSERT_TRUE(device.admit(share(id), at(Nanos(0))).ok());
  device.step(at(Nanos(0)), std::vector{waits(1), waits(2)});
  const End& end = GetParam();
  const std::vector<ClientObservation> seen = {end.seen, waits(2)};
  EXPECT_THAT(device.step(at(end.when), seen).revoke, ElementsAre(1));
  EXPECT_EQ(*decisions, 1);
  EXPECT_THAT(granted(device.resume(std::vector<Quiescence>{{1, at(end.when)}})), ElementsAre(2));
  EXPECT_EQ(*decisions, 2);
}

TEST_F(HostedDeviceTest, ARevokedClientAtRestFreesTheDeviceInTheSameStep) {
  admit({1, 2});
  step(Nanos(0), {waits(1), waits(2)});
  step(Millis(1), {runs(1, Millis(1), Millis(1)), idle(2)});
  ASSERT_TRUE(holds(1));
  // The arbiter's revocation: 1 became idle, its lease is over, and 2 has come.
  step(kLease - Millis(1), {idle(1), idle(2)});
  const PermitWrites revocation = step(kLease, {idle(1), waits(2)});
  EXPECT_THAT(revocation.revoke, ElementsAre(1));
  EXPECT_THAT(granted(resume({{1, at(kLease)}})), ElementsAre(2));
}

TEST_F(HostedDeviceTest, ARevokedClientThatRunsHoldsTheDeviceUntilItIsQuiet) {
  admit({1, 2});
  step(Nanos(0), {waits(1), waits(2)});
  step(kTurn, {runs(1, kTurn, kTurn), waits(2)});
  const PermitWrites waiting = resume({{1, at(Millis(14))}});
  EXPECT_THAT(waiting.grant, IsEmpty());
  EXPECT_LE(waiting.next, at(Millis(14)));
  ClientObservation one = runs(1, Nanos(0), Millis(5));
  one.quiet_by = at(Millis(14));
  EXPECT_THAT(step(Millis(5), {one, waits(2)}).grant, IsEmpty());
  one.quiet_by = at(Millis(6));
  EXPECT_THAT(granted(step(Millis(6), {one, waits(2)})), ElementsAre(2));
  EXPECT_THAT(log->drained, ElementsAre(1));
}

TEST_F(HostedDeviceTest, AClientWhoseLastProcessHasGoneFreesTheDevice) {
  admit({1, 2});
  step(Nanos(0), {waits(1), waits(2)});
  device.leave(1, at(Millis(1)));
  EXPECT_FALSE(holds(1));
  ClientObservation gone = idle(1);
  gone.quiet_by = at(Millis(1));
  EXPECT_THAT(granted(step(Millis(1), {gone, waits(2)})), ElementsAre(2));
}

TEST_F(HostedDeviceTest, ARemovedClientFreesTheDevice) {
  admit({1, 2});
  step(Nanos(0), {waits(1), waits(2)});
  device.remove(1, at(Millis(1)));
  EXPECT_EQ(device.find(1), nullptr);
  EXPECT_THAT(granted(step(Millis(1), {waits(2)})), ElementsAre(2));
}

// Revokes its last grant and grants again, in every decision.
class Restless : public TestTurns {
 public:
  explicit Restless(std::shared_ptr<int> decisions) : decisions_(std::move(decisions)) {}
  Permits step(Time now) override {
    ++*decisions_;
    return {.revoke = {1}, .grant = {{2, kTurn, now + kLease}}, .next = Time::max()};
  }

 private:
  const std::shared_ptr<int> decisions_;
};

TEST(HostedDevice, AStepEndsWhateverItsArbiterDoes) {
  const auto decisions = std::make_shared<int>(0);
  HostedDevice device(std::make_unique<Restless>(decisions),
                      HostedDevice::Budgets::kCountedByClients);
  for (const ClientId id : {1, 2}) ASSERT_TRUE(device.admit(share(id), at(Nanos(0))).ok());
  const std::vector<ClientObservation> seen = {idle(1), idle(2)};
  const std::vector<Quiescence> quiet = {{1, at(Nanos(0))}};
  const PermitWrites* writes = &device.step(at(Nanos(0)), seen);
  int resumed = 0;
  for (; !writes->revoke.empty() && resumed < 100; ++resumed) writes = &device.resume(quiet);
  EXPECT_EQ(*decisions, resumed);
  EXPECT_LE(resumed, 10);
  EXPECT_EQ(writes->next, at(kPause)) << "what was set free last is decided on in the next step";
}

// --- clients that do nothing ---------------------------------------------------------------------

TEST_F(HostedDeviceTest, AClientThatDoesNothingWithItsPermitWantsNothingUntilItNotifies) {
  admit({1});
  for (int wishes = 1; wishes <= 3; ++wishes) {
    const Nanos now = Millis(100) * wishes;
    device.notify(1, at(now));
    const PermitWrites first = step(now, {stopped(1)});
    EXPECT_TRUE(wants(1));
    EXPECT_LE(first.next, at(now + kLag)) << "when its silence will have lasted long enough";
    step(now + kLag - Nanos(1), {stopped(1)});
    EXPECT_TRUE(wants(1));
    step(now + kLag, {stopped(1)});
    EXPECT_FALSE(wants(1));
    step(now + 2 * kLag, {stopped(1)});
    EXPECT_FALSE(wants(1)) << "whatever its page says";
    EXPECT_EQ(log->wishes, wishes);
  }
}

// A client's grants are shorter than the time after which silence means something.
// As one that lies, or that other programs kept from the CPU for so long.
TEST_F(HostedDeviceTest, AClientThatSeemedToWantNothingIsLookedAt) {
  admit({1});
  step(Nanos(0), {stopped(1)});
  Nanos now = kLag;
  ASSERT_LE(step(now, {stopped(1)}).next, at(now + Millis(50)));
  ASSERT_FALSE(wants(1));
  ASSERT_TRUE(holds(1));
  now += Millis(50);
  const PermitWrites writes = step(now, {runs(1, Millis(45), now)});
  EXPECT_THAT(writes.revoke, ElementsAre(1)) << "its permit's budget is used up";
  EXPECT_TRUE(wants(1));
}

TEST_F(HostedDeviceTest, ShortGrantsThatAClientLeavesUnusedAddUp) {
  admit({1, 2});
  const Nanos lag = 3 * kLease;
  const auto one = [&] {
    ClientObservation seen = stopped(1);
    seen.lag = lag;
    return seen;
  };
  int grants = 0;
  for (Nanos now{0}; now < Millis(400) && (grants == 0 || wants(1)); now += Millis(1)) {
    ClientObservation first = one(), second = waits(2);
    if (holds(2)) second = runs(2, Millis(1), now);
    if (device.find(1)->quiescing) first.quiet_by = at(now);
    PermitWrites writes = step(now, {first, second});
    while (!writes.revoke.empty()) {
      grants += static_cast<int>(writes.grant.size());
      writes = resume({{writes.revoke[0], at(now)}});
    }
    grants += static_cast<int>(writes.grant.size());
  }
  EXPECT_FALSE(wants(1));
  EXPECT_TRUE(wants(2));
  EXPECT_GE(grants, 5) << "each client was granted several";
}

TEST_F(HostedDeviceTest, AClientThatUsesItsPermitGoesOnWantingWithoutAWord) {
  admit({1});
  step(Nanos(0), {waits(1)});
  for (Nanos now = Millis(1); now < 3 * kLag; now += Millis(1)) {
    PermitWrites writes = step(now, {runs(1, Micros(10), now)});
    if (!writes.revoke.empty()) resume({{1, at(now)}});
    ASSERT_TRUE(wants(1)) << millis(now);
  }
  EXPECT_EQ(log->wishes, 1);
}

// --- contention ----------------------------------------------------------------------------------

TEST_F(HostedDeviceTest, ClientsAreShownWhetherOthersWait) {
  admit({1, 2});
  EXPECT_THAT(step(Nanos(0), {waits(1), idle(2)}).contended, IsEmpty());
  const PermitWrites contended = step(Millis(1), {runs(1, Micros(1), Millis(1)), waits(2)});
  EXPECT_THAT(contended.contended, ElementsAre(Pair(1, true)));
  EXPECT_EQ(contended.next, at(Millis(1) + kPause)) << "1 may just have become idle";
  EXPECT_TRUE(device.find(1)->contended);
  EXPECT_FALSE(device.find(2)->contended) << "nobody waits but itself";
  EXPECT_THAT(step(Millis(2), {runs(1, Micros(1), Millis(2)), waits(2)}).contended, IsEmpty());
  const PermitWrites over = step(Millis(3), {runs(1, Micros(1), Millis(3)), idle(2)});
  EXPECT_THAT(over.contended, ElementsAre(Pair(1, false)));
}

// --- use -----------------------------------------------------------------------------------------

TEST_F(HostedDeviceTest, UseIsCountedOverAllPermits) {
  admit({1});
  step(Nanos(0), {waits(1)});
  step(Millis(1), {runs(1, Millis(1), Millis(1))});
  ClientObservation twice = runs(1, Micros(300), Millis(2));
  twice.readings.push_back({Micros(200), at(Millis(2))});
  step(Millis(2), {twice});
  EXPECT_EQ(device.find(1)->used, Micros(1500));
  EXPECT_EQ(device.find(1)->spent, Micros(1500));
}

// A client on a GPU is not trusted to stop by itself.
TEST(HostedDevice, ABudgetIsWatchedWhereClientsDoNotCountIt) {
  using Budgets = HostedDevice::Budgets;
  for (const Budgets budgets : {Budgets::kWatched, Budgets::kCountedByClients}) {
    HostedDevice device(std::make_unique<TestTurns>(), budgets);
    ASSERT_TRUE(device.admit(share(1), at(Nanos(0))).ok());
    const bool watched = budgets == Budgets::kWatched;
    EXPECT_EQ(device.step(at(Nanos(0)), std::vector{waits(1)}).next, at(watched ? kTurn : kLag));
    const std::vector<ClientObservation> almost = {runs(1, kTurn - Micros(1), Millis(3))};
    EXPECT_EQ(device.step(at(Millis(3)), almost).next,
              at(Millis(3) + (watched ? Nanos(Micros(100)) : kLag)));
  }
}

// --- hints ---------------------------------------------------------------------------------------

class Listening : public TestTurns {
 public:
  struct Heard {
    std::vector<Time> due;
    std::vector<Nanos> cycles;
  };
  explicit Listening(std::shared_ptr<Heard> heard) : heard_(std::move(heard)) {}
  void deadline(ClientId, Time due, Time) override { heard_->due.push_back(due); }
  void iteration(ClientId, Nanos cycle, uint32_t, Time) override {
    heard_->cycles.push_back(cycle);
  }

 private:
  const std::shared_ptr<Heard> heard_;
};

TEST(HostedDevice, HintsReachTheArbiterWhenTheyChange) {
  const auto heard = std::make_shared<Listening::Heard>();
  HostedDevice device(std::make_unique<Listening>(heard), HostedDevice::Budgets::kCountedByClients);
  ASSERT_TRUE(device.admit(share(1), at(Nanos(0))).ok());
  ClientObservation seen = idle(1);
  seen.due = at(Millis(7));
  seen.ended = {{Millis(1), 0}, {Millis(2), 0}};
  device.step(at(Nanos(0)), std::vector{seen});
  seen.ended.clear();
  device.step(at(Millis(1)), std::vector{seen});
  device.step(at(Millis(2)), std::vector{idle(1)});
  EXPECT_THAT(heard->due, ElementsAre(at(Millis(7)), Time::max()));
  EXPECT_THAT(heard->cycles, ElementsAre(Millis(1), Millis(2)));
}

}  // namespace
}  // namespace sluice::policy
