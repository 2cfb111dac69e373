// The gate inside our model server: the thread that runs the model passes it before every unit of
// work, and reports when it has none. Without pages and without a daemon it is open.
//
// Threads: pass(), rest() and hint_iteration() belong to the thread that runs; adopt() comes before
// it starts.
#pragma once

#include <span>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "wire/permit.h"

namespace sluice::runtime {

class Gate {
 public:
  // Registers at `permit_socket` by itself, at the first pass and after every loss of the daemon.
  // Empty: it registers nowhere.
  explicit Gate(std::string permit_socket = "") : socket_(std::move(permit_socket)) {
    gate_.socket_path = socket_.c_str();
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Takes the permit page, usage page and bell that the daemon hands over.
  Result<void> adopt(std::span<Fd> pages);

  // Registers before there is work, on any thread. Waits for at most 100 ms if the daemon is slow,
  // and not at all if there is none: later passes look for it.
  void enter() {
    sluice_thread* caller = nullptr;
    sluice_gate_pass(&gate_, &caller);
    sluice_gate_idle_begin(caller);
  }
  void pass() { sluice_gate_pass(&gate_, &thread_); }
  void rest() { sluice_gate_idle_begin(thread_); }

  // Hints for the arbiter (wire/permit_hints.h). The oldest waiting request should be answered by
  // then; Time::max(): none waits. From any thread, one at a time.
  void hint_due(Time due) {
    const bool none = due == Time::max();
    sluice_hint_due(&gate_, none ? 0 : static_cast<uint64_t>(due.time_since_epoch().count()));
  }
  // An iteration of so many inferences has ended that took `cycle`.
  void hint_iteration(Nanos cycle, int inferences) {
    sluice_hint_iteration(&gate_, static_cast<uint64_t>(cycle.count()),
                          static_cast<uint32_t>(inferences));
  }

  // Returns the cores of the slice, rounded up, as last seen on the page; 0 if not known.
  int cores() const {
    return static_cast<int>(__atomic_load_n(&gate_.millicores, __ATOMIC_RELAXED) + 999) / 1000;
  }

 private:
  const std::string socket_;
  sluice_gate gate_{};
  sluice_thread* thread_ = nullptr;
};

}  // namespace sluice::runtime
