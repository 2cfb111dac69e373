// A GPU with its part of the node daemon, and programs on it that are processes: under the
// preloaded hook, or held by other methods. The GPU is emulated, or the first of a real driver if
// SLUICE_BENCH_DRIVER names the folder of its libcuda.so.1. Only for benchmarks; not thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "enforce/arbiter_host.h"
#include "enforce/permit_server.h"
#include "gpu/gpu_watch.h"
#include "tests/support/gpu_judge.h"

namespace sluice::bench {

// The words of gpu_tenant.cc.
struct GpuProgram {
  std::string load = "greedy", shape = "eager";
  Nanos kernel = Micros(10);
  int processes = 1;  // each runs all of it; on the emulated device alone
};

// Part of the SMs, where programs run side by side (MPS).
struct SmShare {
  Share begin = kNone, sm = kWhole;
};

enum class HeldBy { kHook, kTokens, kFeedback, kNobody };

class GpuBed {
 public:
  // side_by_side: programs share the device as clients of MPS do; else they run by turns.
  explicit GpuBed(std::string_view arbiter = "shares", bool side_by_side = false);
  explicit GpuBed(std::unique_ptr<policy::Arbiter> arbiter, bool side_by_side = false);
  ~GpuBed();
  GpuBed(const GpuBed&) = delete;

  // Starts a program; its place is behind those before it in the same part of the SMs. request,
  // limit: permille.
  policy::ClientId start(const GpuProgram& program, int request, int limit,
                         HeldBy held_by = HeldBy::kHook, SmShare part = {});
  void stop(policy::ClientId tenant);
  // Changes its quota from now on.
  void resize(policy::ClientId tenant, int request, int limit);

  node::ArbiterHost& host() { return *host_; }
  node::ClientState state(policy::ClientId tenant) { return *host_->state({0, tenant}); }
  bool attached(policy::ClientId tenant) { return state(tenant).processes > 0; }
  pid_t pid(policy::ClientId tenant) const { return tenants_.at(tenant).pid; }
  // The newest that the device's account tells of its first process.
  std::optional<node::DeviceUse> accounted(policy::ClientId tenant) const;

  // By the judge.
  Nanos used(policy::ClientId tenant) { return judge_->used(tenant); }
  std::optional<Time> began_after(policy::ClientId tenant, Time moment) {
    return judge_->began_after(tenant, moment);
  }
  std::optional<Time> last_end(policy::ClientId tenant) { return judge_->last_end(tenant); }
  // Waits until the program has used so much; returns false if it did not within ten seconds.
  bool works(policy::ClientId tenant, Nanos used);
  // Returns whether programs can share the device so: the emulated one always, a real one under
  // MPS.
  static bool goes_side_by_side();
  static bool is_real();
  // The device and its judge, for people.
  static std::string device();

 private:
  struct Tenant {
    policy::ShareClient share;
    pid_t pid = 0;  // of the first of its processes, which form a group
  };
  bool real() const { return driver_ != nullptr; }
  Share end_of_others(SmShare part) const;
  void run_program(const GpuProgram& program, int percent, HeldBy held_by, Share sm,
                   const std::string& stamps) const;
  void end(pid_t pid) const;

  const char* const driver_;  // the folder of a real one; null: emulated
  const std::string folder_;
  SteadyClock clock_;
  std::unique_ptr<GpuJudge> judge_;
  std::unique_ptr<node::GpuWatch> watch_;
  std::map<policy::ClientId, Tenant> tenants_;
  std::mutex mutex_;                         // guards known_
  std::map<pid_t, policy::ClientId> known_;  // groups, for the server's lookup
  policy::ClientId last_id_ = 0;
  std::unique_ptr<node::ArbiterHost> host_;
  std::unique_ptr<node::PermitServer> server_;
};

void nap(Nanos t);

}  // namespace sluice::bench
