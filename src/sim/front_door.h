// The gateway in virtual time: the live dispatcher, without sockets. Requests arrive, wait in their
// function's queue, are granted to an instance, and end. Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/cluster.h"
#include "gateway/dispatcher.h"

namespace sluice::sim {

class FrontDoor;

// A request from its arrival to its end. Its owner is the front door.
class Request : public gateway::Waiter {
 public:
  explicit Request(FrontDoor& door) : door_(door) {}
  void on_granted() override;

  FunctionName function;
  Time arrived{};
  int tries = 0;                 // instances that broke while they had it
  bool ended = true;             // it waits for use again
  bool waits = false;            // in the dispatcher's queue
  InstanceId at;                 // the instance that has it; empty: none
  Time times_out = Time::max();  // max: it waits for a gateway that is dead
  uint64_t number = 0;  // of this use, so that late events find out that it is another request

 private:
  FrontDoor& door_;
};

// The end of a request, as its client sees it.
struct Answer {
  const FunctionName& function;
  Time arrived{};
  Time ended{};
  gateway::Outcome outcome = gateway::Outcome::kOk;
  uint64_t number = 0;  // of its arrival, from 1
};

class FrontDoor {
 public:
  // `hand_over` gives a granted request to its instance; false: the instance refuses the
  // connection. `answered` is called at the end of each request. Requests with the numbers in
  // `refused` are refused when they arrive, whatever admission says.
  FrontDoor(std::function<bool(Request&, Time)> hand_over,
            std::function<void(const Answer&)> answered, std::set<uint64_t> refused = {})
      : hand_over_(std::move(hand_over)),
        answered_(std::move(answered)),
        refused_(std::move(refused)) {}

  void arrive(const FunctionName& f, int inferences, Time now);
  // The instance answered, or failed to.
  void finish(Request& r, gateway::Outcome outcome, Time now);
  // The instance died with the request. Another one gets it, once.
  void broke(Request& r, Time now);
  // Gives instances that were down another chance, and ends requests whose time is over. Call every
  // kTick.
  void tick(Time now);
  static constexpr Nanos kTick = Millis(50);

  // Replaces the routes. Returns the instances that have a request in hand.
  std::set<InstanceId> set_routes(const RoutingTable& table, Time now);
  // Returns the counters as the control loop sees them: of functions whose counters have changed
  // since the last call.
  control::ObservedGateway observe(Time now);

  size_t open() const { return requests_.size() - spare_.size(); }
  // Returns an open request that should have timed out by then; nullptr if there is none.
  const Request* overdue(Time now) const;
  // Returns whether the routes give the instance requests.
  bool routes_to(const Instance& instance) const;

  // The gateway dies with its open requests. New ones wait in its listening socket.
  void crash(Time now);
  // Another one takes its place: it counts from zero, has the routes that the dead one kept, and
  // accepts what waits. Does nothing if it is alive.
  void revive(Time now);
  bool alive() const { return alive_; }

 private:
  friend class Request;
  void enter(Request& r, Time now);
  void settle(Time now);
  void set_waits(Request& r, bool waits);
  std::optional<control::ObservedTraffic> traffic_of(const FunctionName& f,
                                                     std::map<InstanceId, Nanos>& overdue,
                                                     Time now);
  void end(Request& r, gateway::Outcome outcome, Time now);

  struct Deadline {
    Time at{};
    Request* request = nullptr;
    uint64_t number = 0;
  };

  std::function<bool(Request&, Time)> hand_over_;
  std::function<void(const Answer&)> answered_;
  const std::set<uint64_t> refused_;
  std::unique_ptr<gateway::Dispatcher> dispatcher_ = std::make_unique<gateway::Dispatcher>();
  bool alive_ = true;
  UnixMillis started_ = 1;
  std::vector<Request*> backlog_;  // while it is dead
  std::deque<std::unique_ptr<Request>> requests_;
  std::vector<Request*> spare_;
  std::vector<Request*> granted_;  // by the dispatcher, and not yet handed over
  bool settling_ = false;
  std::map<Nanos, std::deque<Deadline>> timeouts_;  // by their length, in order
  int waiting_ = 0;                                 // requests in the dispatcher's queues
  std::set<FunctionName> changed_;                  // since the last observation
  uint64_t next_number_ = 0;
  RoutingTable routes_;
  bool there_are_routes_ = false;
};

}  // namespace sluice::sim
