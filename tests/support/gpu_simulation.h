// A GPU, its programs and the node daemon in virtual time: the device model (device_model/), hosts
// that launch at the gate, and the daemon's HostedDevice with an arbiter. For tests and benchmarks
// of arbiters; two processors cannot play eight eager hosts in real time.
//
//   GpuSimulation gpu("shares", DeviceSpec::h200(false));
//   gpu.add({.id = 1, .sm = kWhole, .quota = {{400}, kWhole}, .has_slo = true}, serving);
//   gpu.add({.id = 2, .sm = kWhole, .quota = {{600}, kWhole}}, training);
//   gpu.run(Seconds(20));
//   gpu.latencies(1); gpu.used(2);
//
// An empty arbiter's name: the driver alone. Programs report exactly what they do, at no cost; or
// (kHooked) by the hook's own gate and meter over pages, which the daemon's meter reads. Times are
// durations since the start. Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string_view>
#include <vector>

#include "arbiters/hosted_device.h"
#include "base/random.h"
#include "tests/support/gpu_programs.h"
#include "tests/support/hooked_host.h"

namespace sluice::policy {

class GpuSimulation : private hook::HookedHost::World {
 public:
  enum class Hosts { kExact, kHooked };

  // Of the machine; assumed.
  static constexpr Nanos kWake = Micros(60);      // a blocked thread, once it may go on
  static constexpr Nanos kDoorbell = Micros(30);  // until the daemon's thread steps
  static constexpr Nanos kRetry = Micros(10);     // between a unit's end and a poll for it
  static constexpr Nanos kSynced = Micros(20);    // between the end of work and its waiter
  static constexpr Nanos kSync = Micros(5);       // from the last launch until the host waits

  GpuSimulation(std::string_view arbiter, const emulator::DeviceSpec& device, uint64_t seed = 1,
                Hosts hosts = Hosts::kExact);
  ~GpuSimulation() override;

  void add(const ShareClient& client, const emulator::GpuProgram& program);
  void change(const ShareClient& client);
  void kill(ClientId id);  // what it queued is gone
  void stop(ClientId id);  // its host does nothing from now on
  void at(Nanos when, std::function<void()> what);
  void run(Nanos until);

  // Device time used, in seconds. Side by side: the time that its work takes alone on its SMs.
  double used(ClientId id) const;
  // The same, of each whole second so far.
  const std::vector<double>& used_by_second(ClientId id) const;
  const std::vector<Nanos>& latencies(ClientId id) const;  // of requests, or iterations
  int64_t iterations(ClientId id) const;
  bool queue_grows(ClientId id) const;  // of requests
  double idle() const;                  // of the device, ‰ of the time
  int64_t steps() const { return steps_; }

 private:
  struct Client;
  struct Event {
    Nanos at;
    int64_t number;
    std::function<void()> act;
    bool operator<(const Event& other) const {  // the largest is on top: the earliest
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  Client& client(ClientId id) const { return *clients_.at(id); }
  void host_at(Client& client, Nanos when);
  void host(Client& client);
  void host_under_hook(Client& client);
  bool rests(Client& client);
  bool passes(Client& client, Nanos cost);
  void launch(Client& client, const emulator::HostLaunch& launch);
  void arrive(Client& client);
  void begin_iteration(Client& client);
  void end_iteration(Client& client);
  void notice_ends();
  void notify(Client& client);
  void step();
  ClientObservation observe(Client& client);
  ClientObservation observe_pages(Client& client);
  void write(const PermitWrites& writes);
  void write_grant(Client& client, Nanos more, Nanos in_flight, Time valid_until);
  void write_neighbours();
  void wake(Client& client);
  void sample();
  static Time time(Nanos t) { return Time(std::chrono::hours(1)) + t; }

  Nanos now() const override { return now_; }
  void resume_at(hook::HookedHost& host, Nanos when) override;
  void rang(hook::HookedHost& host) override;
  void submitted() override { launched_ = true; }

  std::unique_ptr<emulator::DeviceModel> device_;
  const uint64_t seed_;
  const Hosts hosts_;
  std::optional<HostedDevice> hosted_;  // nothing: the driver alone
  std::map<ClientId, std::unique_ptr<Client>> clients_;
  std::priority_queue<Event> events_;
  int64_t numbers_ = 0, steps_ = 0;
  bool launched_ = false;  // the device has something new
  Nanos now_{0}, next_step_ = Nanos::max(), next_sample_ = Seconds(1);
};

}  // namespace sluice::policy
