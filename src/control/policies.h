// Policies: when each bundle last measured and decided, and its policies' memories.
//
// Plain state: its decisions are returned. One thread, the loop's.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "control/function_state.h"
#include "control/snapshots.h"
#include "policy/decide.h"

namespace sluice::control {

class Policies {
 public:
  // `at_rest`: a function is decided again after at most so long, even if nothing has changed.
  Policies(policy::PlatformPolicy platform, uint64_t seed, Nanos at_rest)
      : platform_(std::move(platform)), at_rest_(at_rest), random_(seed) {}

  const policy::Bundle& bundle_of(const FunctionSpec& spec) const {
    return policy::bundle_of(spec, platform_.bundle);
  }
  // Lets all bundles decide at the next tick, however soon it comes.
  void at_once();
  // Steps the forecasts of the bundles that are due.
  void measure(Functions& functions, Time now);
  // Returns whether any bundle is due to decide. decide() is then called in the same tick.
  bool due(Time now);
  // Returns the decisions for the functions that are due, and sets `due` in the snapshot. Policies
  // are pure. So a function is due when its view has changed, or one of its instances, or any
  // device. A function that lacks what it wants is also due when any instance has changed. Each is
  // due every `at_rest`, for rules that depend on the time alone and decisions that came to
  // nothing. Jobs are due together, and at rest less often. `changes` are those since the last
  // call.
  std::vector<Action> decide(Snapshot& snapshot, const SnapshotChanges& changes,
                             const Predictor& predictor, const std::string& boot_id);
  // Whether any policy ran, in the last decide().
  bool ran() const { return ran_; }

  // The function was deleted: one of its name that is created next is another one.
  void forget(const FunctionName& f);

  // Returns policies' memories, by bundle; their times are of one boot's clock.
  const policy::Memories& memories() const { return memories_; }
  const std::string& boot() const { return boot_; }
  void restore(policy::Memories memories, std::string boot);

 private:
  struct Period {
    Time measured{}, decided{};  // when it was last due
  };
  // A function's state since its policy last ran for it.
  struct Seen {
    Time ran{};  // Time{}: it has changed since
    bool unmet = false;
  };
  void note_changes(const Snapshot& now, const SnapshotChanges& changes);
  bool note_run(Seen& seen, size_t function, Time now) const;
  bool jobs_are_due(const Snapshot& snapshot) const;

  const policy::PlatformPolicy platform_;
  const Nanos at_rest_;
  Random random_;
  std::map<std::string_view, Period> periods_;
  std::set<const policy::Bundle*> deciding_;  // in this tick
  std::map<FunctionName, Seen> seen_;         // of the last snapshot's functions
  bool ran_ = false;
  policy::Memories memories_;
  std::string boot_;
};

}  // namespace sluice::control
