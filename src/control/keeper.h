// Keeper: the journal's state of the loop's counters, policies' memories and instances, so that
// only changes are written.
//
// One thread, the loop's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "control/counts.h"
#include "control/policies.h"
#include "control/rollouts.h"

namespace sluice::control {

class Keeper {
 public:
  // The kept parts, by owner.
  struct Kept {
    Functions& functions;
    Accounting& accounting;
    Rollouts& rollouts;
    Counts& counts;
    Policies& policies;
  };
  explicit Keeper(Kept kept) : kept_(kept) {}

  // Restores the earlier loop's state. An account that cannot be read begins at zero.
  void restore(const Accounts& accounts, std::vector<StoredInstance> instances);

  // Counters have changed. The next entry has those of at most 100 functions, the least recently
  // written ones. So each function's are written once a second on platforms of up to 100 functions,
  // once in ten seconds with 1,000. A loop that dies loses the counts since then.
  void counted() { due_ = true; }
  // The next entry has them all: the loop ends.
  void count_all() { due_ = all_ = true; }
  void forget(const FunctionName& f) { written_.erase(f); }

  // Returns the changes since the last written entry: instances, unless their node is away, and
  // counters, if they are due. A function's totals and the counters behind them are of one moment.
  JournalEntry changes(const Observation& seen);
  // The entry that changes() returned last is in the journal, or failed.
  void written(const JournalEntry& entry);
  void not_written();

 private:
  // The journal's state of a function.
  struct Written {
    Account account;
    std::string rollout_failed;
    uint64_t traffic = 0;  // Traffic::changes() then
    int64_t minute = 0;    // of the arrivals: the minute in progress
  };
  void restore_function(FunctionState& f, const Accounts& accounts);
  void restore_used(const FunctionName& f, const nlohmann::json& account);
  void restore_platform(const Accounts& accounts);
  void restore_memories(const Accounts& accounts);
  void add_counters(JournalEntry& entry);
  bool add_counters_of(JournalEntry& entry, const FunctionState& f);
  static void add_arrivals(JournalEntry& entry, const FunctionState& f, int64_t since);
  void add_instances(JournalEntry& entry, const Observation& seen) const;

  Kept kept_;
  bool due_ = false, all_ = false;
  std::map<FunctionName, Written> written_;
  std::map<FunctionName, Written> in_entry_;        // of the last changes()
  FunctionName last_written_;                       // the function whose counters were written last
  policy::Memories memories_;                       // as in the journal
  std::map<InstanceId, StoredInstance> instances_;  // as in the journal
};

}  // namespace sluice::control
