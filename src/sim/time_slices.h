// Whose work the SMs of a GPU run, in virtual time. Each client has SMs and a queue of work:
//
//   - A client has its SMs until another client of them has work, and its slice is over or its
//     queue has been empty for `linger`.
//   - The client that has been without its SMs for longest has them next. Nothing runs there for
//     `switching`.
//   - Clients whose SMs do not overlap run side by side. Work beside others takes 1 + contention ×
//     (the sm of those) times as long.
//
// It has the slices of device_model/device_model.h, and none of its kernels, blocks and bandwidth.
// Pure. Not thread-safe. The caller lets time pass no later than next(), changes what has changed,
// and then calls settle().
#pragma once

#include <vector>

#include "sim/device.h"

namespace sluice::sim {

class TimeSlices {
 public:
  TimeSlices(const GpuPhysics& gpu, Share contention) : gpu_(gpu), contention_(contention) {}

  // Adds a client, or moves it to other SMs.
  void put(policy::ClientId id, Share sm_begin, Share sm);
  // Forgets the client and its work. Ignores an unknown one.
  void remove(policy::ClientId id);
  // Appends work to the client's queue, in the time that it takes alone.
  void queue(policy::ClientId id, Nanos work);

  // Lets time pass until now.
  void advance(Time now);
  // Decides which clients have their SMs from now on.
  void settle();
  // Returns when that may change, or a queue becomes empty.
  Time next() const;

  // Returns how much of the client's work has run, since it was added.
  Nanos done(policy::ClientId id) const { return at(id).done; }
  // Returns when so much has run, as things stand; Time::max() if the client has no SMs.
  // REQUIRES: done(id) <= done <= all that was queued
  Time when(policy::ClientId id, Nanos done) const { return when(at(id), done); }

 private:
  struct Client {
    policy::ClientId id = 0;
    Share sm_begin, sm;
    Nanos queued{0}, done{0};  // cumulative
    bool on = false;           // it has its SMs
    Time runs_from{};          // the end of the switch to it
    Time dry_since{};          // its queue is empty
    Time waits_since{};        // it has work, and no SMs
    Time left = Time::min();   // when it last lost them; min: never
    int slow = 1000;           // the time that its work takes now, in ‰ of the time alone

    bool has_work() const { return done < queued; }
    bool waits() const { return has_work() && !on; }
    bool runs(Time now) const { return on && has_work() && runs_from <= now; }
  };

  const Client& at(policy::ClientId id) const;
  Client& at(policy::ClientId id);
  static bool overlap(const Client& a, const Client& b);
  Time when(const Client& client, Nanos done) const;
  Time turn_ends(const Client& client) const;
  void begin_turns();
  void set_speeds();

  const GpuPhysics gpu_;
  const Share contention_;
  std::vector<Client> clients_;
  Time now_{};
};

}  // namespace sluice::sim
