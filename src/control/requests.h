// Users' requests: apply, roll back, delete, pause, cordon. Each is checked, written to the desired
// state and taken over by the loop, whose next tick begins its effect. What they did is in the
// journal when they return.
//
// Without state of its own. One thread, the loop's; between two ticks.
#pragma once

#include <string>
#include <vector>

#include "control/control.h"

namespace sluice::control {

// The effect of apply() on a specification.
struct Applied {
  FunctionName function;
  int revision = 0;
  std::string what;  // "created", "changed", "traffic" (only the split), "unchanged"
  std::vector<std::string> difference;
  std::vector<std::string> warnings;  // settings of the file without effect
};

// The effect of rollback().
struct RolledBack {
  int revision = 0;
  std::string assumed;  // what it assumed, in a sentence; empty: nothing
};

class Requests {
 public:
  explicit Requests(Control& loop) : loop_(loop) {}

  // Applies all of them, or none; changes nothing if `dry`. Their models have passed a check and
  // have their content; if that differs from the newest revision's, a revision is made.
  Result<std::vector<Applied>> apply(const std::vector<FunctionSpec>& specs, bool dry,
                                     UnixMillis wall);
  // 0: to the one that served before.
  Result<RolledBack> rollback(const FunctionName& f, int to, UnixMillis wall);
  // Returns where what its finished jobs have left is kept; it is removed if `with_models`.
  Result<std::vector<std::string>> remove(const FunctionName& f, UnixMillis wall,
                                          bool with_models = false);
  // Of a training function: its workers leave with a checkpoint, or come back.
  Result<void> set_paused(const FunctionName& f, bool paused, UnixMillis wall);
  // Of a training function without workers: it goes on from that step's checkpoint.
  Result<void> resume_from(const FunctionName& f, int64_t step, UnixMillis wall);
  Result<void> set_drained(const DeviceId& device, bool drained, UnixMillis wall);

 private:
  const StoredFunction* find(const FunctionName& name) const;
  Result<void> check_known(const FunctionName& f) const;
  Result<void> check_job(const FunctionName& f) const;
  std::vector<std::string> warnings_of(const FunctionSpec& spec) const;
  Result<Applied> check(const FunctionSpec& spec, const std::vector<FunctionSpec>& all) const;
  Result<void> save(const FunctionSpec& spec, const Applied& applied, UnixMillis wall);
  void revise(const FunctionSpec& spec, const Applied& applied, UnixMillis wall);
  void resplit(const FunctionSpec& spec, UnixMillis wall);
  int oldest_kept(const StoredFunction& f, int newest) const;

  Control& loop_;
};

}  // namespace sluice::control
