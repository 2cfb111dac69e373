// Overload in virtual time: a function with an objective is offered more than its instances can
// serve, and goes on answering as many requests in time as they can.
#include <gtest/gtest.h>

#include <deque>
#include <queue>

#include "base/random.h"
#include "gateway/dispatcher.h"

namespace sluice::gateway {
namespace {

class Request : public Waiter {
 public:
  Request(std::vector<Request*>& granted, Time sent) : sent(sent), granted_(granted) {}
  void on_granted() override { granted_.push_back(this); }
  const Time sent;

 private:
  std::vector<Request*>& granted_;
};

struct Load {
  const char* name;
  int instances = 2, credit = 1, batch = 1;
  Nanos service = Millis(50);
  double jitter = 0.2;  // of the service time, each way
  Nanos objective = Millis(500);
  // Batches are as fast as single requests.
  double capacity() const { return instances * credit / seconds(service); }
};

struct Outcomes {
  int sent = 0, admitted = 0, in_time = 0;
  Nanos longest{0};  // until an answer
};

// Instances that take `service` for each batch; requests come evenly with jitter.
class Play {
 public:
  Play(const Load& load, uint64_t seed) : load_(load), random_(seed) {
    FunctionRoute f{.name = {.name = "f"}, .slo = load.objective, .split = {{1, 100}}};
    for (int i = 0; i < load.instances; ++i)
      f.instances.push_back({.id = std::to_string(i),
                             .revision = 1,
                             .socket = "/" + std::to_string(i),
                             .credit = load.credit,
                             .batch = load.batch,
                             .ready = true});
    RoutingTable t;
    t.functions["f"] = f;
    dispatcher_.set_table(t, now_);
  }

  Outcomes offer(double per_second, Nanos duration) {
    Outcomes o;
    const Time end = now_ + duration;
    Time next = now_;
    while (next < end || !running_.empty()) {
      if (next < end && (running_.empty() || next <= running_.top().first)) {
        now_ = next;
        next += from_seconds((0.5 + random_.uniform()) / per_second);
        arrive(o);
      } else {
        answer(o);
      }
    }
    return o;
  }

 private:
  using End = std::pair<Time, Request*>;

  void arrive(Outcomes& o) {
    ++o.sent;
    requests_.push_back(std::make_unique<Request>(granted_, now_));
    Request& r = *requests_.back();
    ASSERT_EQ(dispatcher_.find(r, "f", 0, "").refusal, Dispatcher::Refusal::kNone);
    o.admitted += dispatcher_.enter(r, now_, now_).refusal == Dispatcher::Refusal::kNone;
    run_granted();
  }

  void answer(Outcomes& o) {
    const auto [at, request] = running_.top();
    running_.pop();
    now_ = at;
    o.in_time += now_ - request->sent <= load_.objective;
    o.longest = std::max(o.longest, now_ - request->sent);
    dispatcher_.finish(*request, Outcome::kOk, 1, now_);
    run_granted();
  }

  // Requests granted together run as one batch.
  void run_granted() {
    std::map<std::string, Nanos> takes;
    for (Request* r : granted_) {
      if (r->displaced()) {
        dispatcher_.finish(*r, Outcome::kShed, 0, now_);
        continue;
      }
      const double noise = 1 + load_.jitter * (2 * random_.uniform() - 1);
      const Nanos service(static_cast<int64_t>(noise * static_cast<double>(load_.service.count())));
      const Nanos batch = takes.emplace(r->granted()->id, service).first->second;
      running_.emplace(now_ + batch, r);
    }
    granted_.clear();
  }

  const Load load_;
  Random random_;
  Dispatcher dispatcher_;
  Time now_{Seconds(1000)};
  std::deque<std::unique_ptr<Request>> requests_;
  std::vector<Request*> granted_;
  std::priority_queue<End, std::vector<End>, std::greater<>> running_;
};

TEST(Overload, GoodputStaysAndWhatIsAdmittedIsInTime) {
  const std::vector<Load> loads{
      {.name = "two instances"},
      {.name = "one, very uneven", .instances = 1, .jitter = 0.8},
      {.name = "batches of four", .credit = 4, .batch = 4},
      {.name = "an objective of three service times", .objective = Millis(150)},
      {.name = "many slots each", .instances = 4, .credit = 8, .service = Millis(200)},
  };
  for (const Load& load : loads)
    for (const double factor : {2.0, 10.0, 50.0}) {
      const uint64_t seed = 7;
      SCOPED_TRACE(std::string(load.name) + ", " + std::to_string(factor) + " x, seed 7");
      Play play(load, seed);
      // Warms the estimate, like a function that was in use before.
      play.offer(load.capacity() / 2, Seconds(5));
      const Nanos duration = Seconds(20);
      const Outcomes o = play.offer(factor * load.capacity(), duration);
      EXPECT_GE(o.in_time, 0.9 * load.capacity() * seconds(duration));
      EXPECT_GE(o.in_time, 0.95 * o.admitted) << o.admitted << " admitted of " << o.sent;
      // Normal again at once.
      const Outcomes after = play.offer(0.7 * load.capacity(), Seconds(5));
      EXPECT_GE(after.in_time, 0.99 * after.sent) << after.admitted << " admitted";
    }
}

// A function that is late even when idle: its requests wait for as long as the objective, not for
// as long as the queue has places.
TEST(Overload, WhereNoAnswerIsInTimeTheQueueIsBoundedAllTheSame) {
  const std::vector<Load> loads{
      {.name = "one at a time", .instances = 1, .service = Seconds(1), .objective = Millis(300)},
      {.name = "eight at once", .credit = 8, .service = Millis(800), .objective = Millis(300)},
      {.name = "batches", .credit = 4, .batch = 4, .service = Seconds(1), .objective = Millis(900)},
  };
  for (const Load& load : loads)
    for (const double factor : {1.5, 3.0, 20.0}) {
      SCOPED_TRACE(std::string(load.name) + ", " + std::to_string(factor) + " x, seed 7");
      Play play(load, 7);
      play.offer(load.capacity() / 2, Seconds(5));
      const Nanos duration = Seconds(60);
      const Outcomes o = play.offer(factor * load.capacity(), duration);
      EXPECT_LE(o.longest, load.objective + 2 * load.service);
      EXPECT_GE(o.admitted, 0.8 * load.capacity() * seconds(duration)) << "few idle";
    }
}

// An estimate must not close a queue that needs no protection: few are refused near capacity.
TEST(Overload, BelowCapacityAlmostNothingIsRefused) {
  for (const double objective_in_services : {2.0, 3.0, 10.0}) {
    SCOPED_TRACE(objective_in_services);
    const Load load{.name = "two instances",
                    .objective = Nanos(static_cast<int64_t>(objective_in_services * 50e6))};
    Play play(load, 3);
    const Outcomes o = play.offer(0.7 * load.capacity(), Seconds(60));
    EXPECT_GE(o.admitted, 0.999 * o.sent);
    EXPECT_GE(o.in_time, 0.99 * o.sent);
  }
}

}  // namespace
}  // namespace sluice::gateway
