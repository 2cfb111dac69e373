// Hosts a group of devices on one thread. What each does is decided by its policy::HostedDevice,
// which is pure; the thread reads pages, meters and hints, steps the device, and writes its pages.
// The thread runs under SCHED_FIFO where it may; it wakes for the devices' next, a bell, a command,
// a death, and to show that it lives.
//
// Thread-safe. Commands run on the thread and return when they are in force: resize() comes back
// with the new permit written (within a millisecond). The host owns devices, clients and pages;
// when it is destroyed, clients go on at their request by themselves.
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

#include "base/clock.h"
#include "node/hints.h"
#include "node/meter.h"
#include "node/page.h"
#include "node/process_identity.h"
#include "policy/hosted_device.h"
#include "policy/share.h"

namespace sluice::node {

struct HostConfig {
  uint32_t generation = 1;         // the daemon's incarnation
  bool realtime = true;            // SCHED_FIFO, where allowed
  Nanos heartbeat = Millis(50);    // clients take 250 ms of silence for death
  int bells_per_heartbeat = 1000;  // a client that rings more often is not heard until the next one
};

using DeviceNumber = uint32_t;
using ProcessNumber = uint64_t;  // of an attached process; never used again

struct ClientRef {
  DeviceNumber device = 0;
  policy::ClientId client = 0;
  auto operator<=>(const ClientRef&) const = default;
};

// What an attached process is sent.
struct Attachment {
  ProcessNumber number = 0;
  PageFds pages;
  Fd bell;
};

struct ClientState {
  Nanos used{0};     // busy time, cumulative
  Nanos ungated{0};  // of that, what charge() was told
  bool granted = false;
  bool wanting = false;
  int processes = 0;        // attached
  uint32_t sm_refusal = 0;  // why one of them says it runs on all SMs: its driver's CUresult
};

class ArbiterHost {
 public:
  ArbiterHost(const Clock& clock, const HostConfig& config);
  ~ArbiterHost();
  ArbiterHost(const ArbiterHost&) = delete;

  // millicores: of the whole device; 0 where it is not a CPU. `config` as the arbiter was made
  // with.
  DeviceNumber add_device(std::unique_ptr<policy::Arbiter> arbiter,
                          const policy::ArbiterConfig& config, int millicores);

  Result<void> admit(DeviceNumber device, const policy::ShareClient& client,
                     std::unique_ptr<Meter> meter);
  Result<void> resize(DeviceNumber device, const policy::ShareClient& client);
  void remove(ClientRef client);
  Result<ClientState> state(ClientRef client);
  // Of all clients, each device looked at once.
  std::map<ClientRef, ClientState> states();

  // A process of the client, alive as `pidfd` says. One that attaches again gets new pages and
  // loses its old ones.
  Result<Attachment> attach(ClientRef client, const ProcessIdentity& process, Fd pidfd);
  void detach(ProcessNumber process);
  std::set<pid_t> attached(DeviceNumber device);
  // What a client did past the gate, where no meter of ours sees it (ungated_use.h).
  void charge(ClientRef client, Nanos busy, Time seen_until);

  bool realtime() const { return realtime_; }

 private:
  struct Process {
    ClientRef client;
    ProcessIdentity id;
    Fd pidfd;
    Fd bell;
    Pages pages;
    Hints hints;
    sluice_device_report said{};  // at the last look
    int bells = 0;                // since the last heartbeat
  };
  // What the client's processes say together.
  struct Claims {
    bool waiting = false;
    bool want = false;
    bool resting = true;  // no thread is past the gate
  };
  struct Client {
    policy::ShareClient share;
    std::unique_ptr<Meter> meter;
    std::vector<ProcessNumber> processes;
    Claims claims;  // at the last look
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
  void carry_out(Device& device, const policy::PermitWrites& writes, Time now);
  const std::vector<policy::Quiescence>& look_at_revoked(
      Device& device, const std::vector<policy::ClientId>& revoked, Time now);

  Result<Attachment> attach_now(ClientRef ref, const ProcessIdentity& process, Fd pidfd,
                                Pages pages, PageFds fds);
  void write_slice(const Device& device, const Client& client, Process& process);
  void write_grant(const policy::Grant& grant, Nanos budget, Process& process, Time now);
  void write_contended(Process& process, bool contended);
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

  // The thread's own.
  std::deque<Device> devices_;
  std::map<ProcessNumber, Process> processes_;
  ProcessNumber last_process_ = 0;
  Time next_beat_{};
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace sluice::node
