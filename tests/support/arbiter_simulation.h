// A device in virtual time for the arbiters' tests: clients that run operators under their permits,
// the node daemon's HostedDevice, a meter with lag and loss. Clients behave as the gate does: they
// ring the doorbell when they begin to wait, and when they become idle while others wait. Operators
// on more sm than the device has share it, as threads share cores: to wait is not use. It checks at
// every instant that the sm of holders (permit in force, or an operator in flight) stays within
// the device.
//
//   Simulation device("planned");
//   device.add({.id = 1, .sm = {1000}, .quota = {{300}, {300}}}, greedy(Millis(2)));
//   device.run(Seconds(1));
//   device.used(1, Seconds(0), Seconds(1));
//
// Times are durations since the simulation's start. Not thread-safe; for tests only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "arbiters/arbiter.h"
#include "arbiters/hosted_device.h"
#include "base/random.h"
#include "tests/support/sanitizers.h"

namespace sluice::policy {

// One in so many of a property's schedules is played. A plain build plays all; sanitizers slow them
// tenfold, and check the code rather than the decisions. The number shares no divisor with the
// enumerated tables.
inline int one_of() {
  return sanitized() ? 9 : 1;
}

// A client's use of its permits.
struct Behaviour {
  Nanos op_min = Millis(1);   // operators last this long …
  Nanos op_max = Millis(1);   // … to this long, evenly
  Nanos pause{0};             // host time between operators: holds, wants, is not busy
  Nanos work = Nanos::max();  // bursts of work about this long …
  Nanos rest{0};              // … and rests, both exponential
  bool starts_resting = false;
  bool works = true;       // false: waits and holds, runs nothing, and never reports that it rests
  int iteration = 0;       // operators of a marked one (a request, a training step); 0: none
  Nanos request_every{0};  // it serves requests, one iteration each: their interval, exponential …
  Nanos slo{0};            // … and their objective, from the arrival
};
Behaviour greedy(Nanos op);
Behaviour greedy(Nanos op_min, Nanos op_max);
Behaviour idle();
Behaviour bursty(Nanos op, Nanos work, Nanos rest);
Behaviour serving(Nanos op, int ops, Nanos request_every, Nanos slo);
Behaviour training(Nanos op, int ops);  // greedy, with marked steps
Behaviour never_draining();
Behaviour pretending();  // hostile: waits, does nothing with its permits, and rings for more

// A device cut by random full cuts into `pieces` rectangles that fill it, sides multiples of 50 ‰,
// numbered in random order. limit = request.
using Packing = std::vector<ShareClient>;
Packing random_packing(Random& random, size_t pieces);

// How the host learns of use. Without lag it reads the kernel's count at every step.
struct Meter {
  Nanos lag{0};     // reports of every 2 ms come up to this late, hence out of order
  double loss = 0;  // chance that a report never comes
};

class Simulation {
 public:
  explicit Simulation(std::string_view arbiter, uint64_t seed = 1,
                      const ArbiterConfig& config = {});

  Result<void> add(const ShareClient& client, const Behaviour& behaviour, const Meter& meter = {});
  // Takes effect at the next step, which follows at once.
  Result<void> change(const ShareClient& client);
  void remove(ClientId id);
  // Hints beyond those of a client's behaviour.
  void say_deadline(ClientId id, Nanos from_now);
  void say_iteration(ClientId id, Nanos cycle, uint32_t kind);
  void at(Nanos when, std::function<void()> what);  // script
  void run(Nanos until);

  // Every step comes up to this much late; every tenth event with a clock up to this much back.
  void set_host(Nanos late, Nanos clock_back) { late_ = late, clock_back_ = clock_back; }
  // For so long only the device runs: the host and its clients stop, and go on after it.
  void pause(Nanos when, Nanos how_long);

  Nanos used(ClientId id, Nanos from, Nanos to) const;  // multiples of the window
  // Returns whether the client had work, and no rest, in all of it.
  bool backlogged(ClientId id, Nanos from, Nanos to) const;
  bool holds(ClientId id) const;
  // Returns how long each request of a serving client took so far, in the order of their ends.
  const std::vector<Nanos>& latencies(ClientId id) const { return clients_.at(id).latencies; }
  int64_t iterations(ClientId id) const { return clients_.at(id).iterations; }
  Nanos window() const { return config_.window; }

  int64_t steps() const { return steps_; }
  int64_t grants() const { return grants_; }
  int64_t revocations() const { return revocations_; }
  int highest_sm() const { return highest_sm_; }  // of holders together, permille

 private:
  struct Client {
    ShareClient share;
    Behaviour behaviour;
    Meter meter;
    bool wanting = false;
    Time toggles = Time::max();  // when work begins or ends
    bool permitted = false;
    Nanos budget{0};
    Nanos spent{0};  // of the budget, by its own clock
    Time valid_until{};
    Share held_sm;
    bool running = false;  // an operator is in flight
    bool ran = false;      // one has ended, unnoticed by the client
    Nanos op_left{0};      // of it, while it shares its sm with none
    Time op_end = Time::max();
    Time pause_end{};
    Time ended = Time::max();  // its permit, while an operator is in flight
    bool rang = false;         // it waits, and has notified the host
    bool contended = false;    // others wait, by its page
    Nanos busy{0};             // cumulative
    Nanos reported{0};
    Time next_report{};
    std::vector<Reading> readings;  // that have arrived, and the host has not read
    Time last_active{};
    Time due = Time::max();
    std::vector<Iteration> ended_iterations;  // since the host's last poll
    std::deque<Time> requests;                // arrivals of those that wait, the oldest first
    Time next_request = Time::max();
    int ops_done = 0;  // of the current iteration
    Time iteration_began{};
    int64_t iterations = 0;
    std::vector<Nanos> latencies;
    std::vector<Nanos> samples;  // busy at each end of a window, from the simulation's start
    std::vector<bool> rested;    // per window
    bool rested_now = false;
    bool may_run(Time now) const { return permitted && now < valid_until && spent < budget; }
    bool waits(Time now) const { return wanting && !running && pause_end <= now && !may_run(now); }
    bool rests(Time now) const { return wanting ? behaviour.works && waits(now) : !running; }
  };

  bool paused() const { return now_ < paused_until_; }
  Time next_event() const;
  Time next_event(const Client& client) const;
  void pass_until(Time t);
  void end_operators();
  void act();
  void run_script();
  void notice_ends();
  void toggle(Client& client);
  void set_wanting(Client& client, bool wanting);
  void become_idle(const Client& client);
  void ring(ClientId id);
  void ring_doorbells();
  void take_requests();
  void finish_iteration(Client& client);
  void update_due(Client& client);
  void report();
  void step();
  void observe(Client& client, ClientObservation& seen, Time now);
  Nanos silence(const Client& client) const;
  Time quiet_by(ClientId id, Time now) const;
  void write_permits(const PermitWrites& writes);
  void start_operators();
  void share_device();
  void check_holders();
  Time host_clock();

  ArbiterConfig config_;
  std::optional<HostedDevice> device_;
  Random random_;
  std::map<ClientId, Client> clients_;
  std::vector<ClientObservation> observations_;
  std::multimap<Time, std::function<void()>> script_;  // also reports in flight
  Time start_{std::chrono::hours(1)};
  Time now_ = start_;
  Time next_sample_ = start_;
  Time next_step_ = start_;
  Time paused_until_ = start_;
  bool step_due_ = true;
  Nanos late_{0};
  Nanos clock_back_{0};
  int64_t steps_ = 0;
  int64_t grants_ = 0;
  int64_t revocations_ = 0;
  int highest_sm_ = 0;
  int crowd_ = 1000;  // sm of running operators, at least the device's
};

}  // namespace sluice::policy
