// The node daemon's side of a permit, driven by a test: every process that says HELLO gets the same
// pair of pages, and runs after grant(). Its thread answers and keeps the heartbeat.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "wire/permit.h"

namespace sluice::hook {

class PermitDaemon {
 public:
  explicit PermitDaemon(const std::string& path);
  ~PermitDaemon();
  PermitDaemon(const PermitDaemon&) = delete;

  static constexpr uint64_t kHour = 3600ull * 1000 * SLUICE_MS_NS;
  static constexpr uint64_t kInFlightNs = 750'000;
  // It may submit so much more.
  void grant(uint64_t budget_ns = kHour);
  void revoke();
  // As a daemon of that version: later clients get pages that say so.
  void become(uint32_t version);
  // Refuses every later HELLO, as a daemon of the version before.
  void refuse(sluice_refusal reason) { refusal_ = reason; }
  // Somebody has work; somebody sleeps at the gate.
  bool wanted() const { return __atomic_load_n(&usage_->want, __ATOMIC_SEQ_CST) != 0; }
  bool waited_for() const { return __atomic_load_n(&usage_->waiting, __ATOMIC_SEQ_CST) != 0; }
  // Returns the client's report of its device.
  sluice_device_report report() const {
    return sluice_device_report_read(usage_, SLUICE_WIRE_VERSION);
  }
  // Asks for iterations of at most so long; the client's report of them.
  void ask_for_iterations(uint64_t slo_ns) {
    __atomic_store_n(&permit_->slo_ns, slo_ns, __ATOMIC_RELAXED);
  }
  struct Hints {
    uint64_t due_ns, cycle_ns;
    uint32_t iterations, kind;
  };
  Hints hints() const {
    return {usage_->due_ns, usage_->cycle_ns, usage_->iterations, usage_->kind};
  }
  // Its heartbeat has paused since revoke() for so long that a gate may have taken it for dead, as
  // on a loaded machine.
  bool heart_paused() const;
  // Returns how often a HELLO named a device.
  int hellos(int device) const { return hellos_[device]; }

 private:
  void serve();
  void answer(int client);
  void welcome(int client);

  const std::string path_;
  int listener_, bell_, permit_fd_, usage_fd_;
  sluice_permit_page* permit_;
  sluice_usage_page* usage_;
  std::atomic<int> hellos_[4] = {};
  std::atomic<uint64_t> beat_ns_{0}, longest_pause_ns_{0};
  std::atomic<uint32_t> refusal_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace sluice::hook
