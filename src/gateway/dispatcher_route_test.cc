// The dispatcher and the routes that it asks. Today's choices stay as recorded, and the interface
// carries the inputs of other routes: the request, measurements, waiting, pulling, a state.
#include <gtest/gtest.h>

#include <deque>

#include "base/random.h"
#include "gateway/dispatcher.h"

namespace sluice::gateway {
namespace {

class Request : public Waiter {
 public:
  void on_granted() override { woken = true; }
  std::string at() const { return granted() ? granted()->id : "-"; }
  bool woken = false;
};

struct Recorded {
  const char* route;
  uint64_t seed;
  std::string granted;
};

// Recorded before routes saw requests and measurements: instances by letter, in the order of
// grants, under random tables, arrivals, answers and deaths.
const std::vector<Recorded> kRecorded{
    {"weighted", 1,
     "ebacfccbabcafedeafcfacdafcbdcbaadcddfffaabbbffeddeeebbbbebbacaafcfddddbbccccddde"
     "bcccbbbedfdfdffaaaa"},
    {"weighted", 2,
     "cedebeefdaaaabdaaadfcccbdccbeedccdddaaaaddddcacffaeaeeebbbbeeaaceeedccdbddaaaacf"
     "cfededeefedeafedacdcbcbbbaafddddeffaadcceeeaaa"},
    {"least_work", 1,
     "ebacbccbafacbedeafcfacfadcbdcbaadcddfffaabbbffeddeeebbbbebbacaafcfddddbbccccddde"
     "bcccbbbedfddfffaaaa"},
    {"least_work", 2,
     "cedebeebdaaaaddaaabfcccbbccbeedccbbdaaaaddddccaffeaeaeebbbbeaaceeeedddddaaaacccf"
     "feeeeffebadeadebecddddccaaffbbaaddeaffcddceaaa"},
};

std::string grants_of(const char* route, uint64_t seed) {
  Random random(seed);
  Dispatcher dispatcher;
  Time now(Seconds(1000));
  const auto change = [&] {
    RoutingTable t;
    FunctionRoute& f = t.functions["f"];
    f = {.name = {.name = "f"}, .admit_all = true, .route = route, .split = {{1, 60}, {2, 40}}};
    for (int i = 0; i < 6; ++i) {
      if (random.chance(0.2)) continue;
      const int credit = 1 + static_cast<int>(random.below(4));
      InstanceRoute instance{.id = std::string(1, static_cast<char>('a' + i)),
                             .revision = 1 + i % 2,
                             .socket = "/" + std::to_string(i),
                             .credit = credit};
      instance.batch = 1 + static_cast<int>(random.below(static_cast<uint64_t>(credit)));
      instance.capability = 1 + random.uniform() * 99;
      instance.ready = random.chance(0.9);
      f.instances.push_back(instance);
    }
    dispatcher.set_table(t, now);
  };
  change();
  std::deque<Request> all;
  std::vector<Request*> living;
  std::string granted;
  for (int step = 0; step < 400; ++step) {
    now += Micros(random.below(3000));
    const uint64_t what = random.below(20);
    if (what == 0) {
      change();
    } else if (what == 1) {
      dispatcher.tick(now);
    } else if (what < 11 || living.empty()) {
      Request& r = all.emplace_back();
      dispatcher.find(r, "f", 0, "");
      dispatcher.enter(r, now, now);
      living.push_back(&r);
    } else {
      const size_t at = random.below(living.size());
      Request* r = living[at];
      if (!r->granted()) continue;
      if (what == 19) {
        r->woken = false;
        dispatcher.again(*r, true, now);
      } else {
        living.erase(living.begin() + static_cast<std::ptrdiff_t>(at));
        dispatcher.finish(*r, Outcome::kOk, 1, now);
      }
    }
    for (Request* r : living)
      if (std::exchange(r->woken, false)) granted += r->at();
  }
  for (; !living.empty(); living.pop_back())
    dispatcher.finish(*living.back(), Outcome::kGone, 0, now);
  return granted;
}

TEST(DispatcherRoutes, GrantAsRecorded) {
  for (const Recorded& r : kRecorded)
    EXPECT_EQ(grants_of(r.route, r.seed), r.granted) << r.route << ", seed " << r.seed;
}

// ---- a route that uses all of the interface -----------------------------------------------------

using policy::InstanceView;
using policy::RequestView;
using policy::RouteState;

// Large requests go to the instance that answers fastest and wait for it; others go to the first
// with credit. It counts what it has chosen.
std::optional<size_t> by_size(const RequestView& request, std::span<const InstanceView> instances,
                              RouteState& state, Time) {
  std::optional<size_t> chosen;
  for (size_t i = 0; i < instances.size(); ++i)
    if (instances[i].credit > 0 && !chosen) chosen = i;
  if (request.size_class() > 10)
    chosen = static_cast<size_t>(
        std::ranges::max_element(instances, {}, &InstanceView::service_rate) - instances.begin());
  if (!chosen || instances[*chosen].credit <= 0) return std::nullopt;
  ++state.instances[*chosen];
  return chosen;
}

// An instance takes the next request after its answer, but no more often than it has been chosen.
bool takes_as_often_as_chosen(const RequestView&, std::span<const InstanceView>, size_t puller,
                              RouteState& state, Time) {
  return state.instances[puller]-- > 0;
}

std::optional<size_t> to_none(const RequestView&, std::span<const InstanceView>, RouteState&,
                              Time) {
  return std::nullopt;
}
bool always(const RequestView&, std::span<const InstanceView>, size_t, RouteState&, Time) {
  return true;
}

class RouteSeam : public testing::Test {
 protected:
  static inline const policy::Route kRoutes[] = {
      {"by-size", "large ones to the fastest", by_size},
      {"by-size-and-pull", "the same, and an instance may take the next", by_size,
       takes_as_often_as_chosen},
      {"pull-only", "instances take what they answer", to_none, always},
      *policy::find_route("round_robin"),
      *policy::find_route("least_outstanding"),
      *policy::find_route("service_rate"),
  };

  void table(const char* route, std::vector<std::string> ids, int credit = 1, Nanos slo = {}) {
    RoutingTable t;
    FunctionRoute& f = t.functions["f"];
    f = {.name = {.name = "f"}, .admit_all = true, .route = route, .split = {{1, 100}}};
    f.slo = slo;
    for (const std::string& id : ids)
      f.instances.push_back(
          {.id = id, .revision = 1, .socket = "/" + id, .credit = credit, .ready = true});
    dispatcher.set_table(t, now);
  }
  Request& arrive(uint64_t bytes) {
    Request& r = requests.emplace_back();
    r.body_bytes = bytes;
    dispatcher.find(r, "f", 0, "");
    dispatcher.enter(r, now, now);
    return r;
  }
  void answer(Request& r, Nanos takes) { dispatcher.finish(r, Outcome::kOk, 1, now += takes); }
  // Answers come after 100 ms from slow and after 10 ms from fast.
  void measure() {
    Request &a = arrive(1), &b = arrive(1);
    ASSERT_EQ(a.at() + b.at(), "slowfast");
    answer(b, Millis(10));
    answer(a, Millis(90));
  }

  Dispatcher dispatcher{"", kRoutes};
  Time now = Time(Seconds(1000));
  std::deque<Request> requests;
};

TEST_F(RouteSeam, ARouteSeesSizesAndMeasuredRatesAndLetsARequestWait) {
  table("by-size", {"slow", "fast"});
  measure();
  Request& first = arrive(1 << 20);
  EXPECT_EQ(first.at(), "fast");
  Request& second = arrive(1 << 20);
  EXPECT_EQ(second.at(), "-") << "slow is idle, but the request waits for fast";
  Request& small = arrive(1);
  EXPECT_EQ(small.at(), "-") << "behind the one that waits";
  answer(first, Millis(10));
  EXPECT_EQ(second.at(), "fast");
  EXPECT_EQ(small.at(), "slow");
  answer(second, Millis(10));
  answer(small, Millis(10));
}

TEST_F(RouteSeam, AnInstanceWhoseCreditCameBackMayPull) {
  table("pull-only", {"i"});
  Request& r = arrive(1);
  EXPECT_EQ(r.at(), "-") << "nothing is handed out but what is pulled";
  dispatcher.finish(r, Outcome::kGone, 0, now);
  table("by-size-and-pull", {"slow", "fast"});
  measure();
  Request &first = arrive(1), &large = arrive(1 << 20), &next = arrive(1 << 20);
  EXPECT_EQ(first.at() + large.at() + next.at(), "slowfast-");
  answer(first, Millis(10));
  EXPECT_EQ(next.at(), "slow") << "pulled, though choose() would have it wait for fast";
  answer(large, Millis(10));
  answer(next, Millis(10));
}

TEST_F(RouteSeam, TheStateGoesWithItsInstanceAndEndsWithTheRoute) {
  table("by-size-and-pull", {"slow", "fast"});
  measure();
  Request& small = arrive(1);
  EXPECT_EQ(small.at(), "slow");
  Request* last = &arrive(1 << 20);
  for (int i = 0; i < 3; ++i) {  // fast may pull twice; the third is chosen for it, and counted
    Request& next = arrive(1 << 20);
    answer(*last, Millis(10));
    last = &next;
    EXPECT_EQ(last->at(), "fast");
  }
  Request& busy = *last;
  Request& pulled = arrive(1 << 20);
  table("by-size-and-pull", {"fast", "slow"});
  EXPECT_EQ(busy.at() + pulled.at(), "fast-");
  answer(small, Millis(10));
  EXPECT_EQ(pulled.at(), "slow") << "it was chosen twice";
  Request& waits = arrive(1 << 20);
  table("by-size", {"fast", "slow"});
  table("by-size-and-pull", {"fast", "slow"});
  answer(pulled, Millis(10));
  EXPECT_EQ(waits.at(), "-") << "another route began anew";
  answer(busy, Millis(10));
  answer(waits, Millis(10));
}

TEST_F(RouteSeam, RoundRobinGoesOnWhereItWasUnderAnotherTable) {
  table("round_robin", {"a", "b", "c"}, 2);
  Request &first = arrive(1), &second = arrive(1);
  EXPECT_EQ(first.at() + second.at(), "ab");
  answer(first, Millis(10));
  table("round_robin", {"a", "c", "d"}, 2);
  Request &third = arrive(1), &fourth = arrive(1), &fifth = arrive(1);
  EXPECT_EQ(third.at() + fourth.at() + fifth.at(), "cda");
  for (Request* r : {&second, &third, &fourth, &fifth}) answer(*r, Millis(10));
}

TEST_F(RouteSeam, ASluggishInstanceTakesLessUntilItIsInTimeAgain) {
  table("service_rate", {"a", "b"}, 1, Millis(55));
  // Returns a's part of 200 requests after 300 others; b answers within 50 ms.
  const auto part_of_a = [&](Nanos takes) {
    int chosen = 0;
    for (int n = 0; n < 500; ++n) {
      Request& r = arrive(1);
      const bool is_a = r.at() == "a";
      chosen += is_a && n >= 300;
      answer(r, is_a ? takes : Nanos(Millis(50)));
    }
    return chosen / 200.0;
  };
  EXPECT_NEAR(part_of_a(Millis(54)), 50.0 / 104, 0.02);
  EXPECT_LT(part_of_a(Millis(60)), 0.15) << "by its service rate alone it would be 0.45";
  EXPECT_NEAR(part_of_a(Millis(54)), 50.0 / 104, 0.02);
}

TEST_F(RouteSeam, LeastOutstandingFollowsTheAnswers) {
  table("least_outstanding", {"a", "b"}, 3);
  Request &first = arrive(1), &second = arrive(1);
  EXPECT_EQ(first.at() + second.at(), "ab");
  answer(second, Millis(10));
  Request& third = arrive(1);
  EXPECT_EQ(third.at(), "b") << "a has not answered";
  Request& fourth = arrive(1);
  EXPECT_EQ(fourth.at(), "a") << "equal ones alternate";
  for (Request* r : {&first, &third, &fourth}) answer(*r, Millis(10));
}

}  // namespace
}  // namespace sluice::gateway
