// The records of a node's devices and instances: in memory, and on disk by the registry. When a
// function returns, its change is on disk and counted. An error says that the disk refused it; the
// comments say what is then in memory.
//
// Not thread-safe; the daemon's loop owns it. A pointer to a record is valid until a record is
// added or removed.
#pragma once

#include "node/changes.h"
#include "node/registry.h"

namespace sluice::node {

class Records {
 public:
  // Keeps them in the file `path`.
  Records(const std::string& path, NodeState state, Changes& changes);
  Records(const Records&) = delete;

  const NodeState& state() const { return state_; }
  std::vector<InstanceRecord>& instances() { return state_.instances; }
  InstanceRecord* find(const InstanceId& id);  // nullptr: there is none
  const InstanceRecord* find(const InstanceId& id) const;

  // On an error the record is not added.
  Result<void> add(InstanceRecord record);
  Result<void> remove(const InstanceId& id);
  // Removes all but the newest records of ended instances. Saved with the next change.
  void forget_old();
  Result<void> set_drained(const DeviceId& device, bool drained, const std::string& fault);
  // After a change of a record. On an error the record keeps its change.
  Result<void> save();
  // As save(), for changes that an error does not stop: it is logged.
  void save_or_log();

 private:
  Registry registry_;
  NodeState state_;
  Changes& changes_;
};

}  // namespace sluice::node
