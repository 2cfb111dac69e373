// One CPU device with its daemon, and clients that are processes, for enforcement tests and the
// data plane's benchmarks. The kernel's counter measures, from outside. Only for tests and
// benchmarks; not thread-safe.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "enforce/arbiter_host.h"
#include "enforce/cgroup.h"
#include "enforce/permit_server.h"
#include "enforce/quota_writes.h"
#include "wire/permit.h"

namespace sluice::bench {

// A client's load on the device.
enum class Load {
  kGreedy,       // works without a pause
  kIdle,         // attaches and has no work
  kBursty,       // 30 ms of work, 50 ms of rest, on average
  kReportsZero,  // greedy, and wipes its usage page all the time
  kLies,     // greedy; waits for grants, but ignores budgets, acknowledges nothing, always wants
  kUngated,  // greedy, and never asks for a permit
};

// A client's progress, in memory shared with the testbed.
struct Progress {
  std::atomic<bool> go;                       // set once it is enforced
  std::atomic<uint64_t> units;                // of work, done
  std::atomic<int> gate;                      // sluice_gate_state
  std::atomic<uint64_t> asked_ns, passed_ns;  // CLOCK_MONOTONIC of the last pass of the gate
};

struct TestbedConfig {
  std::string_view arbiter = policy::kDefaultArbiter;
  policy::ArbiterConfig windows;
  int core = -1;          // the device's; -1: the last one
  int millicores = 1000;  // less: a share of that core
  bool backstop = true;   // cgroups, where they can be written
  node::Backstop quota;   // … and how tight
  Nanos operator_time = Micros(200);
};

class Testbed {
 public:
  explicit Testbed(const TestbedConfig& config);
  ~Testbed();
  Testbed(const Testbed&) = delete;

  // Starts a client that is admitted, put into its group and then let go. request, limit and
  // `begin`, its place in the window: permille; without one it is placed behind the others.
  policy::ClientId start(Load load, int request, int limit, std::optional<int> begin = {});
  void stop(policy::ClientId client);

  Result<void> resize(policy::ClientId client, int request, int limit);
  Nanos used(policy::ClientId client) const;  // CPU time, as the kernel counts it
  Progress& progress(policy::ClientId client) { return *clients_.at(client).progress; }
  pid_t pid(policy::ClientId client) const { return clients_.at(client).pid; }
  node::ArbiterHost& host() { return *host_; }
  bool has_backstop() const { return cgroups_ && cgroups_->writable(); }
  std::string enforcement() const;  // in words
  int millicores() const { return config_.millicores; }
  // CPU time of the device's core since boot that was not the clients': other programs, the kernel,
  // the machine's host. In ticks of 10 ms.
  Nanos used_by_others() const;

 private:
  struct Client {
    policy::ShareClient share;
    pid_t pid = 0;
    Progress* progress = nullptr;
    std::optional<node::Cgroup> group;
    node::QuotaWrites quota{node::Backstop{}.period};  // of the group
  };
  int end_of_others() const;
  Result<void> hold(Client& client);

  const TestbedConfig config_;
  const std::string name_, socket_;
  SteadyClock clock_;
  std::optional<node::Cgroups> cgroups_;
  std::map<policy::ClientId, Client> clients_;
  std::mutex mutex_;                         // guards known_
  std::map<pid_t, policy::ClientId> known_;  // for the server's lookup
  policy::ClientId last_id_ = 0;
  std::unique_ptr<node::ArbiterHost> host_;
  std::unique_ptr<node::PermitServer> server_;
};

// Share of the device's time that a client used while `span` passed, by the kernel's counter.
double used_share(Testbed& bed, policy::ClientId client, Nanos span);

// A unit of work: this much CPU time of the calling thread.
void work_for(Nanos cpu);

}  // namespace sluice::bench
