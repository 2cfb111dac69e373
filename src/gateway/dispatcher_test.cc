#include "gateway/dispatcher.h"

#include <gtest/gtest.h>

#include <deque>

#include "wire/json/routing_json.h"

namespace sluice::gateway {
namespace {

class Request : public Waiter {
 public:
  explicit Request(char name) : name(name) {}
  void on_granted() override { woken = true; }
  uint64_t content() const override { return says; }
  std::string at() const { return granted() ? granted()->id : "-"; }
  const char name;
  uint64_t says = 1;
  bool woken = false;
};

// One function "f"; requests are letters. Time is in milliseconds.
class DispatcherTest : public testing::Test {
 protected:
  void table(std::vector<InstanceRoute> instances, int max_queue = 100,
             std::vector<policy::RevisionPercent> split = {{1, 100}}) {
    RoutingTable t;
    t.functions["f"] = {.name = {.name = "f"},
                        .slo = Millis(100),
                        .max_queue = max_queue,
                        .admit_all = admit_all,
                        .unavailable = unavailable,
                        .split = std::move(split),
                        .instances = std::move(instances)};
    dispatcher.set_table(t, now);
  }
  static InstanceRoute instance(std::string id, int credit = 1, int batch = 1, int revision = 1) {
    return {.id = id,
            .revision = revision,
            .socket = "/" + id,
            .credit = credit,
            .batch = batch,
            .capability = 10,
            .ready = true};
  }
  Dispatcher::Entry ask(Request& request, std::string_view served = "f", int revision = 0,
                        std::string_view token = "") {
    const auto found = dispatcher.find(request, served, revision, token);
    return found.refusal == Dispatcher::Refusal::kNone ? dispatcher.enter(request, now, now)
                                                       : found;
  }
  // Letters arrive in order, a millisecond apart.
  void arrive(std::string_view names) {
    for (const char name : names) {
      requests.emplace_back(name);
      const auto entry = ask(requests.back());
      ASSERT_EQ(entry.refusal, Dispatcher::Refusal::kNone) << entry.why;
      now += Millis(1);
    }
  }
  Request& r(char name) {
    for (Request& request : requests)
      if (request.name == name) return request;
    std::abort();
  }
  void finish(char name, Outcome outcome = Outcome::kOk) {
    dispatcher.finish(r(name), outcome, 1, now);
  }
  // Returns the place of each request: "a@i b@-".
  std::string where() {
    std::string out;
    for (const Request& request : requests)
      out += std::string(out.empty() ? "" : " ") + request.name + "@" + request.at();
    return out;
  }
  Counters counters() { return dispatcher.stats(now)[0].counters; }

  bool admit_all = false;   // of the next table
  std::string unavailable;  // of the next table
  Dispatcher dispatcher;
  Time now = Time(Seconds(100));
  std::deque<Request> requests;
};

TEST_F(DispatcherTest, WaitingHappensInTheQueueNotAtAnInstance) {
  table({instance("i"), instance("k")});
  arrive("abc");
  EXPECT_EQ(where(), "a@i b@k c@-");
  finish('b');
  EXPECT_EQ(where(), "a@i b@- c@k");
}

TEST_F(DispatcherTest, AWaveIsGivenWhenAllOfItCanStart) {
  table({instance("i", 3, 3)});
  arrive("ab");
  EXPECT_EQ(where(), "a@i b@-") << "b would wait at the instance, bound";
  arrive("cde");
  finish('a');
  EXPECT_EQ(where(), "a@- b@i c@i d@i e@-");
  EXPECT_EQ(r('b').more(), 2);
  EXPECT_EQ(r('d').more(), 0);
}

TEST_F(DispatcherTest, LostRequestsGoBehindThoseThatCanBeInTime) {
  admit_all = true;
  table({instance("i")});
  arrive("a");
  now += Millis(20);
  finish('a');  // an answer takes about 20 ms
  arrive("bcd");
  now += Millis(85);  // c can no longer make its 100 ms
  arrive("e");
  finish('b');
  EXPECT_EQ(r('e').at(), "i");
  finish('e');
  EXPECT_EQ(r('c').at(), "i") << "lost, but served";
}

TEST_F(DispatcherTest, HoldsWhileTheFirstInstanceStartsAndCountsAColdStart) {
  table({});
  arrive("ab");
  EXPECT_EQ(where(), "a@- b@-");
  table({instance("i", 2, 2)});
  EXPECT_EQ(where(), "a@i b@i");
  EXPECT_TRUE(r('a').woken);
  finish('a');
  finish('b');
  EXPECT_EQ(counters().cold_starts, 2u);
  EXPECT_EQ(counters().ok, 2u);
}

TEST_F(DispatcherTest, AFullQueueShedsAndSaysWhenToComeBack) {
  table({instance("i")}, 2);
  arrive("abc");
  Request d('d');
  const auto entry = ask(d);
  EXPECT_EQ(entry.refusal, Dispatcher::Refusal::kFull);
  EXPECT_EQ(counters().shed, 1u);
  finish('b', Outcome::kGone);
  EXPECT_EQ(ask(d).refusal, Dispatcher::Refusal::kNone);
  dispatcher.finish(d, Outcome::kGone, 0, now);
}

// Answers take 20 ms here and the objective is 100 ms.
TEST_F(DispatcherTest, WhatCannotBeInTimeIsRefusedUnlessTheFunctionAdmitsAll) {
  for (const bool all : {false, true}) {
    requests.clear();
    admit_all = all;
    table({instance("i")});
    for (int warm = 0; warm < 20; ++warm) {
      arrive("w");
      now += Millis(19);
      finish('w');
      requests.clear();
    }
    const uint64_t shed = counters().shed;
    arrive("abcde");  // e starts 76 ms from now
    Request late('l');
    const auto entry = ask(late);
    EXPECT_EQ(entry.refusal, admit_all ? Dispatcher::Refusal::kNone : Dispatcher::Refusal::kLate);
    EXPECT_EQ(counters().shed - shed, admit_all ? 0u : 1u);
    dispatcher.finish(late, Outcome::kGone, 0, now);
    for (const char c : std::string("abcde")) finish(c);
  }
}

// It would have stayed for its objective. On the same connection it is the same demand until its
// Retry-After has passed.
TEST_F(DispatcherTest, ARefusedRequestIsDemandOnce) {
  table({instance("i")}, 0);
  arrive("a");
  const Counters before = counters();
  Request b('b');
  const auto refused = ask(b);
  EXPECT_EQ(refused.refusal, Dispatcher::Refusal::kFull);
  EXPECT_EQ(refused.retry_after, Seconds(1));
  EXPECT_NEAR(counters().concurrency_seconds - before.concurrency_seconds, 0.1, 1e-9);
  EXPECT_EQ(counters().repeated, 0u);
  const auto counts_again = [&](Nanos later) {
    now += later;
    const Counters then = counters();
    EXPECT_EQ(ask(b).refusal, Dispatcher::Refusal::kFull);
    const Counters& c = counters();
    EXPECT_EQ(c.requests, then.requests + 1);
    const bool anew = c.concurrency_seconds - then.concurrency_seconds > 0.05;
    EXPECT_EQ(c.repeated - then.repeated, anew ? 0u : 1u);
    EXPECT_EQ(c.gaps - then.gaps, anew ? 1u : 0u);
    return anew;
  };
  EXPECT_FALSE(counts_again(Millis(300)));
  EXPECT_FALSE(counts_again(Millis(600))) << "hammering does not put it off";
  EXPECT_TRUE(counts_again(Millis(100)));
  EXPECT_FALSE(counts_again(Millis(10)));
  b.says = 2;
  EXPECT_TRUE(counts_again(Millis(10))) << "the next request of a pool's connection";
  EXPECT_FALSE(counts_again(Millis(10)));
  b.begin_anew();
  EXPECT_TRUE(counts_again(Millis(10))) << "another client";
}

TEST_F(DispatcherTest, ABodyThatComesSlowlyUsesHalfOfTheObjectiveAtMost) {
  table({});
  Request quick('q'), slow('s');
  for (Request* r : {&quick, &slow}) dispatcher.find(*r, "f", 0, "");
  dispatcher.enter(quick, now - Millis(20), now);
  dispatcher.enter(slow, now - Seconds(3), now);
  EXPECT_EQ(quick.deadline(), now + Millis(80));
  EXPECT_EQ(slow.deadline(), now + Millis(50));
  for (Request* r : {&quick, &slow}) dispatcher.finish(*r, Outcome::kGone, 0, now);
}

TEST_F(DispatcherTest, AFullQueueOfLostRequestsMakesWayForOneThatCanBeInTime) {
  table({}, 2);
  arrive("ab");
  now += Millis(150);  // both are lost: no instance could start them
  arrive("c");
  EXPECT_TRUE(r('a').woken && r('a').displaced());
  EXPECT_FALSE(r('b').woken);
  table({instance("i")}, 2);
  EXPECT_EQ(r('c').at(), "i");
  finish('a', Outcome::kShed);
  finish('c');
  EXPECT_EQ(r('b').at(), "i") << "late, but served";
  EXPECT_EQ(counters().shed, 1u);
}

TEST_F(DispatcherTest, AHalfClosedClientWaitsBehindAllOthers) {
  table({instance("i")});
  arrive("abc");
  dispatcher.defer(r('b'));
  finish('a');
  EXPECT_EQ(where(), "a@- b@- c@i");
  finish('c');
  EXPECT_EQ(r('b').at(), "i");
}

TEST_F(DispatcherTest, WhatStreamsLeavesASlotForTheOthers) {
  table({instance("i"), instance("k")});
  const auto stream = [&](char name) {
    requests.emplace_back(name).streams = true;
    EXPECT_EQ(ask(requests.back()).refusal, Dispatcher::Refusal::kNone);
    now += Millis(1);
  };
  stream('s');
  stream('t');
  EXPECT_EQ(where(), "s@i t@-");
  arrive("a");
  EXPECT_EQ(r('a').at(), "k");
  finish('a');
  EXPECT_EQ(r('t').at(), "-") << "one slot is left for the others";
  dispatcher.sent(r('s'), now);
  EXPECT_EQ(r('t').at(), "k") << "the body of s is here";
  finish('s');
  finish('t');
  requests.clear();
  table({instance("i")});
  stream('s');
  EXPECT_EQ(r('s').at(), "i") << "the only slot there is";
}

TEST_F(DispatcherTest, WhatStreamsTakesAQuarterOfThePlaces) {
  table({}, 8);
  for (const char name : std::string("stu")) {
    requests.emplace_back(name).streams = true;
    EXPECT_EQ(ask(requests.back()).refusal,
              name == 'u' ? Dispatcher::Refusal::kFull : Dispatcher::Refusal::kNone);
  }
  arrive("abcdef");
}

TEST_F(DispatcherTest, AnInstanceThatLetsRequestsTimeOutIsOverdueUntilItAnswers) {
  table({instance("i", 2)});
  const auto overdue_since = [&] { return dispatcher.stats(now)[0].instances[0].overdue_since; };
  arrive("ab");
  now += Seconds(60);
  finish('a', Outcome::kTimedOut);
  EXPECT_EQ(overdue_since(), now);
  now += Seconds(1);
  finish('b');
  EXPECT_EQ(overdue_since(), Time{});
}

TEST_F(DispatcherTest, AQueueOfNothingStillServesWhoCanGoAtOnce) {
  table({instance("i")}, 0);
  arrive("a");
  EXPECT_EQ(where(), "a@i");
}

TEST_F(DispatcherTest, RefusesWhatItDoesNotKnow) {
  table({instance("i")});
  Request q('q');
  EXPECT_EQ(ask(q, "g", 0).refusal, Dispatcher::Refusal::kUnknown);
  EXPECT_EQ(ask(q, "f", 7).refusal, Dispatcher::Refusal::kUnknownRevision);
}

TEST_F(DispatcherTest, AQuestionAboutTheModelWaitsLikeTheOthersAndIsNoLoad) {
  table({instance("i")});
  Request question('q');
  question.is_inference = false;
  EXPECT_EQ(ask(question).refusal, Dispatcher::Refusal::kNone);
  EXPECT_EQ(question.at(), "i");
  dispatcher.finish(question, Outcome::kOk, 0, now);
  EXPECT_EQ(ask(question, "f", 9).refusal, Dispatcher::Refusal::kUnknownRevision);
  const Counters c = counters();
  EXPECT_EQ(c.requests + c.ok + c.invalid + c.failed + c.inferences + c.latency.count(), 0u);
}

// The loop sees demand in queued, running and integrated requests: a question is in none of them.
TEST_F(DispatcherTest, AQuestionIsNoDemandWhileItWaitsOrRuns) {
  table({instance("i")});
  Request running('r'), waiting('w');
  for (Request* q : {&running, &waiting}) {
    q->is_inference = false;
    EXPECT_EQ(ask(*q).refusal, Dispatcher::Refusal::kNone);
  }
  EXPECT_EQ(running.at() + waiting.at(), "i-");
  now += Seconds(1);
  arrive("a");
  FunctionStats s = dispatcher.stats(now)[0];
  EXPECT_EQ(s.queued, 1) << "a alone";
  EXPECT_EQ(s.in_flight, 0);
  EXPECT_EQ(s.counters.concurrency_seconds, 0.001);
  for (Request* q : {&running, &waiting}) dispatcher.finish(*q, Outcome::kOk, 0, now);
  finish('a');
  s = dispatcher.stats(now)[0];
  EXPECT_EQ(s.queued + s.in_flight, 0);
  EXPECT_EQ(s.instances[0].busy, Nanos(0)) << "a was answered in no time";
}

TEST_F(DispatcherTest, AQuestionWakesNoFunction) {
  table({});
  Request question('q');
  question.is_inference = false;
  const auto entry = ask(question);
  EXPECT_EQ(entry.refusal, Dispatcher::Refusal::kUnavailable);
  EXPECT_EQ(entry.why, "no instance of 'f' is ready; questions start none");
  const FunctionStats s = dispatcher.stats(now += Seconds(1))[0];
  EXPECT_EQ(s.counters, Counters{});
  EXPECT_EQ(s.queued, 0);
}

TEST_F(DispatcherTest, AVersionThatIsNotThereIsTheCallersFault) {
  table({instance("i")});
  Request wrong('w');
  EXPECT_EQ(ask(wrong, "f", 9).refusal, Dispatcher::Refusal::kUnknownRevision);
  EXPECT_EQ(counters().invalid, 1u);
  EXPECT_EQ(counters().failed, 0u);
}

TEST_F(DispatcherTest, TokensAreCompared) {
  RoutingTable t;
  t.functions["f"] = {.name = {.name = "f"}, .token = "secret", .split = {{1, 100}}};
  dispatcher.set_table(t, now);
  for (const char* wrong : {"", "secre", "secretx", "Secret"}) {
    Request q('q');
    EXPECT_EQ(ask(q, "f", 0, wrong).refusal, Dispatcher::Refusal::kDenied) << wrong;
  }
  Request q('q');
  EXPECT_EQ(ask(q, "f", 0, "secret").refusal, Dispatcher::Refusal::kNone);
  dispatcher.finish(q, Outcome::kGone, 0, now);
}

TEST_F(DispatcherTest, ABrokenInstanceIsLeftAloneForAMoment) {
  table({instance("i"), instance("k")});
  arrive("a");
  EXPECT_EQ(r('a').at(), "i");
  dispatcher.again(r('a'), true, now);
  EXPECT_EQ(r('a').at(), "k") << "its place is kept, the broken one passed over";
  arrive("b");
  EXPECT_EQ(r('b').at(), "-");
  now += Seconds(3);
  dispatcher.tick(now);
  EXPECT_EQ(r('b').at(), "i");
}

TEST_F(DispatcherTest, ATableThatChangesDisturbsNobody) {
  table({instance("i")});
  arrive("ab");
  table({instance("k")});  // i is gone from the table, a is still there
  EXPECT_EQ(where(), "a@i b@k");
  finish('a');
  finish('b');
  EXPECT_EQ(counters().ok, 2u);
  table({instance("k")});
  arrive("c");
  EXPECT_EQ(r('c').at(), "k");
}

TEST_F(DispatcherTest, AnInstanceIsBusyUntilItsLastRequestEndedWhateverTheTableSays) {
  using Ids = std::vector<std::string>;
  table({instance("i"), instance("k")});
  EXPECT_EQ(dispatcher.busy(), Ids{});
  arrive("ab");
  EXPECT_EQ(dispatcher.busy(), (Ids{"i", "k"}));
  table({instance("k")});
  EXPECT_EQ(dispatcher.busy(), (Ids{"k", "i"})) << "out of the table";
  dispatcher.set_table({}, now);
  dispatcher.tick(now);
  EXPECT_EQ(dispatcher.busy(), (Ids{"i", "k"})) << "its function deleted";
  finish('a');
  EXPECT_EQ(dispatcher.busy(), Ids{"k"});
  finish('b');
  EXPECT_EQ(dispatcher.busy(), Ids{});
}

TEST_F(DispatcherTest, WhoeverADeletedFunctionCannotServeIsToldAtOnce) {
  table({instance("i"), instance("k")});
  arrive("abc");
  Request reading('r');
  EXPECT_EQ(dispatcher.find(reading, "f", 0, "").refusal, Dispatcher::Refusal::kNone);
  dispatcher.set_table({}, now);
  EXPECT_EQ(where(), "a@i b@k c@-");
  EXPECT_TRUE(r('c').woken) << "it waited";
  finish('c', Outcome::kFailed);
  EXPECT_EQ(dispatcher.enter(reading, now, now).refusal, Dispatcher::Refusal::kUnavailable)
      << "its body was still being read";
  dispatcher.finish(reading, Outcome::kFailed, 0, now);
  r('a').woken = false;
  dispatcher.again(r('a'), false, now);
  EXPECT_TRUE(r('a').woken && r('a').at() == "-") << "its instance died";
  finish('a', Outcome::kFailed);
  finish('b');  // answered
  dispatcher.tick(now);
  table({instance("i")});
  arrive("d");
  EXPECT_EQ(r('d').at(), "i") << "a new function of that name begins anew";
  EXPECT_EQ(dispatcher.stats(now)[0].queued, 0);
}

TEST_F(DispatcherTest, RequestsThatWaitAreTurnedAwayOnceNoInstanceCanBeHad) {
  table({});
  arrive("ab");
  unavailable = "no device has room";
  table({instance("i")});
  EXPECT_EQ(where(), "a@i b@-");
  EXPECT_FALSE(r('b').woken) << "an instance is ready";
  table({});
  EXPECT_TRUE(r('b').woken);
  EXPECT_EQ(r('b').turned_away(), "no device has room");
  finish('b', Outcome::kFailed);
  r('a').woken = false;
  dispatcher.again(r('a'), false, now);
  EXPECT_TRUE(r('a').woken) << "its instance died";
  EXPECT_EQ(r('a').turned_away(), "no device has room");
  finish('a', Outcome::kFailed);
  EXPECT_EQ(counters().failed, 2u);
  EXPECT_EQ(dispatcher.stats(now)[0].queued, 0);
  unavailable.clear();
  table({});
  arrive("c");
  EXPECT_FALSE(r('c').woken) << "it waits again";
  finish('c', Outcome::kGone);
}

TEST_F(DispatcherTest, TrafficIsSplitOverRevisions) {
  std::vector<InstanceRoute> instances{instance("old", 100, 1, 1), instance("new", 100, 1, 2)};
  table(instances, 100, {{1, 75}, {2, 25}});
  arrive("abcdefgh");
  int to_new = 0;
  for (Request& request : requests) to_new += request.at() == "new";
  EXPECT_EQ(to_new, 2);
}

TEST_F(DispatcherTest, ConcurrencyIsTheIntegralOfWaitingAndRunning) {
  table({instance("i")});
  arrive("ab");      // 1 ms of one, 1 ms of two
  now += Millis(8);  // 8 ms of two
  finish('a');
  now += Millis(10);  // 10 ms of one
  finish('b');
  EXPECT_NEAR(counters().concurrency_seconds, 0.001 + 0.018 + 0.010, 1e-9);
}

TEST_F(DispatcherTest, AChangeTouchesItsFunctionsAloneAndHoldsForOneVersion) {
  const auto named = [](const char* name, int max_queue) {
    FunctionRoute f{.name = {.name = name}, .max_queue = max_queue, .split = {{1, 100}}};
    f.instances = {instance(name)};
    return f;
  };
  RoutingTable t{.version = 3};
  for (const char* name : {"f", "g", "h"}) t.functions[name] = named(name, 1);
  dispatcher.set_table(t, now);
  arrive("ab");
  RoutingChange change{.since = 2, .version = 4, .changed = {}, .removed = {{.name = "f"}}};
  EXPECT_FALSE(dispatcher.change_table(change, now));
  EXPECT_EQ(dispatcher.table(), t);
  EXPECT_FALSE(r('b').woken);
  change.since = 3;
  change.changed["g"] = named("g", 2);
  change.changed["new"] = named("new", 1);
  EXPECT_TRUE(dispatcher.change_table(change, now));
  EXPECT_TRUE(r('b').woken) << "f was deleted";
  EXPECT_EQ(r('b').turned_away(), "the function was deleted meanwhile");
  apply(t, change);
  EXPECT_EQ(dispatcher.table(), t);
  Request g('g'), h('h'), n('n');
  EXPECT_EQ(ask(g, "g").refusal, Dispatcher::Refusal::kNone);
  EXPECT_EQ(ask(h, "h").refusal, Dispatcher::Refusal::kNone);
  EXPECT_EQ(ask(n, "new").refusal, Dispatcher::Refusal::kNone);
  EXPECT_EQ(g.at() + h.at() + n.at(), "ghnew");
  for (Request* request : {&g, &h, &n}) dispatcher.finish(*request, Outcome::kOk, 1, now);
  for (const char name : std::string("ab")) finish(name, Outcome::kFailed);
}

TEST(Table, ReadsWhatItWritesAndNamesFaults) {
  RoutingTable t{.version = 3};
  t.functions["v.f"] = {.name = {"v", "f"},
                        .slo = Millis(50),
                        .timeout = Seconds(5),
                        .max_queue = 7,
                        .token = "t",
                        .route = "least_work",
                        .split = {{1, 90}, {2, 10}},
                        .instances = {{"i", 1, "/s", 4, 2, 12.5, true}}};
  EXPECT_EQ(*table_from(wire::to_json(t)), t);
  const RoutingChange change{
      .since = 3, .version = 4, .changed = t.functions, .removed = {{"v", "gone"}}};
  EXPECT_EQ(*change_from(wire::to_json(change)), change);
  const auto fault = [](const char* text) {
    return table_from(nlohmann::json::parse(text)).error().message;
  };
  EXPECT_EQ(fault(R"({"functions":[{"name":"f","route":"x"}]})"),
            "function.route: 'x' is none of weighted, least_work, round_robin, least_outstanding, "
            "service_rate");
  EXPECT_EQ(fault(R"({"functions":[{"name":"f","instances":[{"id":"i"}]}]})"),
            "f: instance.socket: must not be empty");
  EXPECT_EQ(fault(R"({"functions":[{"name":"f"},{"name":"f"}]})"),
            "routes.functions: 'f' stands there twice");
}

}  // namespace
}  // namespace sluice::gateway
