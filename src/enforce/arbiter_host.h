// Hosts a group of devices on one thread. The pure policy::HostedDevice decides for each device.
// The thread reads pages, meters and hints, steps the device, and writes its pages. It runs under
// SCHED_FIFO where allowed. It wakes for a device's next step, a doorbell, a command, a death, and
// its own heartbeat.
//
// Thread-safe. Commands run on the thread and return once they are in force: change_share() returns
// with the new permit written (within a millisecond). The host owns devices, clients and pages.
// After it is destroyed, clients go on at their request by themselves.
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <type_traits>
#include <vector>

#include "arbiters/arbiter.h"
#include "arbiters/hosted_device.h"
#include "base/clock.h"
#include "enforce/hints.h"
#include "enforce/meter.h"
#include "enforce/page.h"
#include "process/process_identity.h"

namespace sluice::node {

struct HostConfig {
  uint32_t generation = 1;         // the daemon's incarnation
  bool realtime = true;            // SCHED_FIFO, where allowed
  Nanos heartbeat = Millis(50);    // clients take 250 ms of silence for its death
  int bells_per_heartbeat = 1000;  // a client that rings more often is ignored until the next one
};

using DeviceNumber = uint32_t;
using ProcessNumber = uint64_t;  // of an attached process; never reused

struct ClientRef {
  DeviceNumber device = 0;
  policy::ClientId client = 0;
  auto operator<=>(const ClientRef&) const = default;
};

// What an attached process receives.
struct Attachment {
  ProcessNumber number = 0;
  PageFds pages;
  Fd bell;
};

struct ClientState {
  Nanos used{0};         // busy time, cumulative
  Nanos ungated{0};      // of that, without a report (Meter::ungated)
  bool granted = false;  // it may run, or launch, now
  bool wanting = false;
  int processes = 0;  // attached
};

class ArbiterHost {
 public:
  ArbiterHost(const Clock& clock, const HostConfig& config);
  ~ArbiterHost();
  ArbiterHost(const ArbiterHost&) = delete;

  // millicores: of the whole device; 0 if it is not a CPU. `config` as the arbiter was made with.
  DeviceNumber add_device(std::unique_ptr<policy::Arbiter> arbiter,
                          const policy::ArbiterConfig& config, int millicores);
  // Changes a device's arbiter.
  // REQUIRES: the device has no clients
  void set_arbiter(DeviceNumber device, std::unique_ptr<policy::Arbiter> arbiter,
                   const policy::ArbiterConfig& config);

  Result<void> admit(DeviceNumber device, const policy::ShareClient& client,
                     std::unique_ptr<Meter> meter);
  // Replaces a client's sm, quota and place; its processes and its account stay.
  Result<void> change_share(DeviceNumber device, const policy::ShareClient& client);
  void remove(ClientRef client);
  Result<ClientState> state(ClientRef client);
  // Returns the state of all clients; each device is read once.
  std::map<ClientRef, ClientState> states();

  // Attaches a process of the client, watched by `pidfd`. A process that attaches again gets new
  // pages and loses its old ones.
  Result<Attachment> attach(ClientRef client, const ProcessIdentity& process, Fd pidfd,
                            uint32_t version = SLUICE_WIRE_VERSION);
  void detach(ProcessNumber process);
  // Meter::watch(). Returns what the client used ungated so far.
  Nanos watch(ClientRef client, pid_t pid);

  bool realtime() const { return realtime_; }

 private:
  struct Process {
    ClientRef client;
    ProcessIdentity id;
    Fd pidfd;
    Fd bell;
    Pages pages;
    Hints hints;
    sluice_device_report said{};             // at the last poll
    bool active = false;                     // it had work on a GPU since the poll before
    bool contended = false, beside = false;  // as its page says
    Time not_alone_until{};                  // another process may have had work on its SMs then
    int bells = 0;                           // since the last heartbeat
  };
  // The claims of the client's processes together.
  struct Claims {
    bool waiting = false;
    bool want = false;
    bool resting = true;  // no thread is past the gate
  };
  struct Client {
    policy::ShareClient share;
    std::unique_ptr<Meter> meter;
    std::vector<ProcessNumber> processes;
    Claims claims;  // at the last poll
  };
  struct Device {
    policy::HostedDevice hosted;
    policy::ArbiterConfig config;
    int millicores = 0;
    std::map<policy::ClientId, Client> clients;
    std::vector<policy::ClientObservation> observations;  // in the order of `clients`
    std::vector<policy::Quiescence> revoked;              // kept for its memory
    Time next = Time::max();
  };

  // Runs `command` on the thread and returns what it returns.
  template <class F>
  std::invoke_result_t<F> call(F command) {
    std::packaged_task<std::invoke_result_t<F>()> task(std::move(command));
    auto result = task.get_future();
    post([&task] { task(); });
    return result.get();
  }
  void post(std::function<void()> command);

  void run();
  void wait();
  void on_bell(ProcessNumber number, Time now);
  void run_commands();
  void beat(Time now);

  ClientState state_of(const Device& device, policy::ClientId id, const Client& client) const;
  void step(Device& device);
  Time look(Device& device);
  void observe(Client& client, const policy::HostedDevice::Client& hosted, bool on_cpu,
               policy::ClientObservation& seen, Time now);
  void hear_hints(const Client& client, policy::ClientObservation& seen, Time now);
  Claims claims(const Client& client) const;
  void pass_reports_on(Client& client, Time now);
  void write_permits(Device& device, const policy::PermitWrites& writes, Time now);
  const std::vector<policy::Quiescence>& look_at_revoked(
      Device& device, const std::vector<policy::ClientId>& revoked, Time now);

  Result<Attachment> attach_now(ClientRef ref, const ProcessIdentity& process, Fd pidfd,
                                Pages pages, PageFds fds);
  void write_slice(const Device& device, const Client& client, Process& process);
  void write_grant(const Device& device, const policy::Grant& grant, Nanos budget, Process& process,
                   Time now);
  void write_budget(const policy::HostedDevice::Client& hosted, Process& process, Time now);
  void write_flags(Process& process, bool contended, bool beside);
  void write_neighbours(Device& device, Time until);
  void write_neighbours(Process& process, bool beside, Time alone_since, Time until);
  void close_pages(Process& process);
  void drop_process(ProcessNumber number, Time now);
  Client* find(ClientRef ref);
  void unwatch(const Fd& fd);

  const Clock& clock_;
  const HostConfig config_;
  bool realtime_ = false;
  Fd epoll_, timer_, command_bell_;

  std::mutex mutex_;
  std::deque<std::function<void()>> commands_;  // guarded by mutex_

  // Owned by the thread.
  std::deque<Device> devices_;
  std::map<ProcessNumber, Process> processes_;
  ProcessNumber last_process_ = 0;
  Time next_beat_{};
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace sluice::node
