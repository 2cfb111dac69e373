// The dispatcher under random arrivals, answers, deaths, tables and clients that leave, in virtual
// time. No request is lost or granted twice, and no instance exceeds its credit. A full queue takes
// a request only in place of a lost one. A request is refused as late only while others wait or
// run. Requests leave a queue in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "base/random.h"
#include "gateway/dispatcher.h"

namespace sluice::gateway {
namespace {

constexpr int kMaxQueue = 12;
constexpr Nanos kSlo = Millis(40);

class World;

class Request : public Waiter {
 public:
  Request(World& world, Time arrived) : arrived(arrived), world_(world) {}
  void on_granted() override;
  const Time arrived;
  Time granted_at{};
  bool running = false, shed = false;

 private:
  World& world_;
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) { new_table(); }

  void step() {
    now_ += Micros(random_.below(8000));
    switch (random_.below(12)) {
      case 0:
        return new_table();
      case 1:
        return dispatcher_.tick(now_);
      case 2:
        return leave();
      case 3:
        return die();
      case 4:
      case 5:
      case 6:
      case 7:
        return arrive();
      default:
        return answer();
    }
  }

  // Every instance can start and no request arrives: all waiting ones must be answered.
  void drain() {
    all_ready_ = true;
    new_table();
    for (int i = 0; i < 10'000 && !living_.empty(); ++i) {
      now_ += Millis(5);
      dispatcher_.tick(now_);
      answer();
    }
    EXPECT_TRUE(living_.empty()) << living_.size() << " requests were lost";
    const FunctionStats s = stats();
    EXPECT_EQ(s.queued, 0);
    EXPECT_EQ(s.in_flight, 0);
    EXPECT_EQ(s.counters.requests, arrived_ + refused_);
    EXPECT_EQ(s.counters.shed, refused_ + displaced_);
    EXPECT_EQ(s.counters.ok, answered_);
    EXPECT_EQ(s.counters.gone, left_);
    EXPECT_EQ(s.counters.retried, retried_);
    EXPECT_EQ(arrived_, answered_ + left_ + displaced_);
    EXPECT_GT(answered_, 0u);
  }

  void granted(Request& r) {
    EXPECT_FALSE(r.running || r.shed) << "granted twice";
    if (r.displaced()) {
      r.shed = true;
      EXPECT_TRUE(is_lost(r)) << "could have been in time";
      EXPECT_EQ(waiting_.erase(&r), 1u);
      return;
    }
    r.running = true;
    r.granted_at = now_;
    EXPECT_TRUE(waiting_.erase(&r) == 1) << "granted without waiting";
    check_order(r);
    const std::string& at = r.granted()->id;
    const auto i = table_.find(at);
    ASSERT_NE(i, table_.end()) << at << " is not in the table";
    EXPECT_LE(r.granted()->outstanding, i->second.credit) << at;
  }

 private:
  bool is_lost(const Request& r) const { return now_ + service_.mean() > r.arrived + kSlo; }

  // The order of a revision's requests: those that can be in time before those that cannot, then by
  // deadline, that is by arrival here.
  void check_order(const Request& r) const {
    const auto rank = [&](const Request& of) { return std::pair(is_lost(of), of.arrived); };
    for (const Request* other : waiting_) {
      if (other->revision() != r.revision()) continue;
      EXPECT_LE(rank(r), rank(*other)) << "passed another one over";
    }
  }

  void new_table() {
    RoutingTable t;
    FunctionRoute f{.name = {.name = "f"}, .slo = kSlo, .max_queue = kMaxQueue};
    f.route = policy::routes()[random_.below(policy::routes().size())].name;
    const int percent = static_cast<int>(random_.below(101));
    f.split = {{1, percent}, {2, 100 - percent}};
    table_.clear();
    const uint64_t count = all_ready_ ? 6 : random_.below(7);
    for (uint64_t i = 0; i < count; ++i) {
      const int credit = 1 + static_cast<int>(random_.below(4));
      f.instances.push_back(
          {.id = "i" + std::to_string(i),
           .revision =
               all_ready_ ? 1 + static_cast<int>(i % 2) : 1 + static_cast<int>(random_.below(2)),
           .socket = "/" + std::to_string(i),
           .credit = credit,
           .batch = 1 + static_cast<int>(random_.below(static_cast<uint64_t>(credit))),
           .capability = static_cast<double>(random_.below(100)),
           .ready = all_ready_ || random_.below(4) > 0});
      table_[f.instances.back().id] = f.instances.back();
    }
    t.functions["f"] = f;
    dispatcher_.set_table(t, now_);
  }

  void arrive() {
    auto r = std::make_unique<Request>(*this, now_);
    const FunctionStats before = stats();
    EXPECT_EQ(dispatcher_.find(*r, "f", 0, "").refusal, Dispatcher::Refusal::kNone);
    Request& arriving = *r;
    living_.push_back(std::move(r));
    waiting_.insert(&arriving);
    const auto entry = dispatcher_.enter(arriving, now_, now_);
    if (entry.refusal == Dispatcher::Refusal::kNone) {
      ++arrived_;
    } else {
      ++refused_;
      waiting_.erase(&arriving);
      living_.pop_back();
    }
    switch (entry.refusal) {
      case Dispatcher::Refusal::kNone:
        EXPECT_LE(stats().queued, std::max(kMaxQueue, before.queued));
        break;
      case Dispatcher::Refusal::kFull:
        EXPECT_GE(before.queued, kMaxQueue);
        break;
      case Dispatcher::Refusal::kLate:
        EXPECT_GT(before.queued + before.in_flight + is_down(before), 0);
        break;
      default:
        ADD_FAILURE() << entry.why;
    }
    // A displaced request answers its client.
    for (size_t i = living_.size(); i-- > 0;)
      if (living_[i]->shed) {
        dispatcher_.finish(*living_[i], Outcome::kShed, 0, now_);
        living_.erase(living_.begin() + static_cast<std::ptrdiff_t>(i));
        ++displaced_;
      }
  }

  bool is_down(const FunctionStats& s) const {
    return std::ranges::any_of(s.instances, [&](const Upstream& u) { return u.down_until > now_; });
  }

  std::unique_ptr<Request> take(bool running) {
    std::vector<size_t> those;
    for (size_t i = 0; i < living_.size(); ++i)
      if (living_[i]->running == running) those.push_back(i);
    if (those.empty()) return nullptr;
    const size_t chosen = those[random_.below(those.size())];
    std::unique_ptr<Request> r = std::move(living_[chosen]);
    living_.erase(living_.begin() + static_cast<std::ptrdiff_t>(chosen));
    return r;
  }

  void answer() {
    const auto r = take(true);
    if (!r) return;
    ++answered_;
    if (r->more() == 0) service_.add(1, now_ - r->granted_at);
    dispatcher_.finish(*r, Outcome::kOk, 1, now_);
  }

  void leave() {
    const auto r = take(random_.below(2) == 0);
    if (!r) return;
    ++left_;
    waiting_.erase(r.get());
    dispatcher_.finish(*r, Outcome::kGone, 0, now_);
  }

  void die() {
    auto r = take(true);
    if (!r) return;
    const bool refused = random_.below(2) == 0;
    retried_ += refused ? 0 : 1;
    r->running = false;
    waiting_.insert(r.get());
    living_.push_back(std::move(r));
    dispatcher_.again(*living_.back(), refused, now_);
  }

  FunctionStats stats() { return dispatcher_.stats(now_)[0]; }

  Random random_;
  Dispatcher dispatcher_;
  Time now_ = Time(Seconds(1000));
  policy::ServiceTime service_;  // by the dispatcher's estimate
  bool all_ready_ = false;
  std::map<std::string, InstanceRoute> table_;
  std::vector<std::unique_ptr<Request>> living_;
  std::set<Request*> waiting_;
  uint64_t arrived_ = 0, answered_ = 0, refused_ = 0, displaced_ = 0, left_ = 0, retried_ = 0;
};

void Request::on_granted() {
  world_.granted(*this);
}

TEST(DispatcherProperty, NothingIsLostNothingIsGrantedTwice) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    for (int i = 0; i < 2000; ++i) world.step();
    world.drain();
    if (testing::Test::HasFailure()) return;
  }
}

// While all are equally busy, each instance gets work in proportion to its capability.
TEST(DispatcherProperty, WorkIsSharedInProportionToCapability) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    RoutingTable t;
    FunctionRoute f{.name = {.name = "f"}, .slo = kSlo, .max_queue = 100, .split = {{1, 100}}};
    const uint64_t count = 2 + random.below(5);
    double sum = 0;
    for (uint64_t i = 0; i < count; ++i) {
      f.instances.push_back({.id = std::to_string(i),
                             .revision = 1,
                             .socket = "/" + std::to_string(i),
                             .credit = 1000,
                             .capability = static_cast<double>(1 + random.below(50)),
                             .ready = true});
      sum += f.instances.back().capability;
    }
    t.functions["f"] = f;
    Dispatcher dispatcher;
    Time now(Seconds(1000));
    dispatcher.set_table(t, now);
    class Quiet : public Waiter {
      void on_granted() override {}
    };
    constexpr int kRequests = 1000;
    std::deque<Quiet> requests(kRequests);
    std::map<std::string, int> given;
    for (Quiet& r : requests) {
      ASSERT_EQ(dispatcher.find(r, "f", 0, "").refusal, Dispatcher::Refusal::kNone);
      ASSERT_EQ(dispatcher.enter(r, now, now).refusal, Dispatcher::Refusal::kNone);
      ASSERT_TRUE(r.granted());
      ++given[r.granted()->id];
      dispatcher.finish(r, Outcome::kOk, 1, now);
      now += Millis(1);
    }
    for (const InstanceRoute& i : f.instances)
      EXPECT_NEAR(given[i.id], kRequests * i.capability / sum, static_cast<double>(count)) << i.id;
  }
}

}  // namespace
}  // namespace sluice::gateway
