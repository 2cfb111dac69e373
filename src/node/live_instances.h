// The daemon's ties to each live process that holds a slice: its pidfd and, for an instance that
// this daemon started, its control channel. An instance has one such process per part (on GPUs one
// in all), and ends with the first of them; a draining one ends with the last. Waits for the end of
// each, ends those that are to stop, and frees their slices.
//
// Belongs to one io_context with one thread, and must outlive its coroutines.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "node/launcher.h"
#include "node/mps_controls.h"
#include "node/reservations.h"

namespace sluice::node {

// The ties to the first process of a part, or of all.
struct Tie {
  Fd pidfd;
  Channel control{};
};

class LiveInstances {
 public:
  LiveInstances(asio::io_context& io, const Clock& clock, Records& records,
                Reservations& reservations, Enforcer& enforcer, MpsControls& mps, Nanos grace,
                Born born = Born::kByTheDaemon);
  LiveInstances(const LiveInstances&) = delete;

  // Takes over the live instances of the earlier daemon.
  Result<void> adopt();
  // Holds the ties of an instance until its end, in the order of its parts. Without a control
  // channel it is drained by SIGTERM.
  void follow(const InstanceId& id, std::vector<Tie> ties);
  // Stops the instance when `owner` ends.
  void stop_after(const InstanceId& id, const ProcessIdentity& owner);

  // REQUIRES: it is followed.
  Infant infant(const InstanceRecord& r, size_t part);
  // Sent only over a control channel.
  void tell_threads(const InstanceId& id, uint32_t threads);
  // Returns whether it was stopped before it was followed.
  bool unwanted(const InstanceId& id) const;

  // Gives it no new work. The instance finishes its work within at most `drain`. A foreign process
  // goes on, free of its slice. An ended instance is forgotten. A Pod is asked by its kubelet; if
  // its processes are still there after `drain` and the grace, they are killed.
  Result<void> stop(const InstanceId& id, Nanos drain);
  // Notes that its Pod is being deleted: it drains, and its kubelet ends it.
  void leaves(const InstanceId& id);
  // As stop(), but a foreign slice's processes end as well: SIGTERM, and after `drain` SIGKILL,
  // each once MPS has released it.
  Result<void> end_program(const InstanceId& id, Nanos drain);
  // Kills an instance whose start failed. Its slice is free once its process has ended.
  void give_up(const InstanceId& id, const Error& why);
  // Frees its slice and records that it is gone.
  void end(const InstanceId& id, const std::string& why);

 private:
  struct Live {
    std::vector<Tie> ties;  // empty: not born yet
    size_t ended = 0;       // processes of parts
    bool unwanted = false;  // stopped before it was born
    std::string fault;      // why it is killed
  };

  asio::awaitable<void> watch(InstanceId id, size_t part, Fd pidfd, Time started);
  std::string why_ended(const InstanceRecord& r, size_t part, const std::string& how) const;
  const DeviceId& failed_device(const InstanceRecord& r) const;
  bool adopt_processes(const InstanceRecord& r);
  asio::awaitable<void> kill_later(InstanceId id, ProcessIdentity process, Nanos patience);
  asio::awaitable<void> stop_with_owner(InstanceId id, ProcessIdentity owner);
  asio::awaitable<void> end_processes(Instance i, Nanos drain);
  std::vector<ProcessIdentity> processes_of(const Instance& i) const;
  bool follow_family(InstanceRecord& r);
  void drain_process(const InstanceRecord& r, Nanos drain);
  void kill_now(const InstanceId& id);

  asio::io_context& io_;
  const Clock& clock_;
  Records& records_;
  Reservations& reservations_;
  Enforcer& enforcer_;
  MpsControls& mps_;
  const Nanos grace_;
  const Born born_;
  std::map<InstanceId, Live> live_;
};

}  // namespace sluice::node
