// What the node daemon must not forget: node.state. Written whole, to a new file that then takes
// the old one's name, so that a reader finds the state before or after, never between. Not flushed
// to the disk, which would hold up every resize by milliseconds: what is written survives the
// daemon's death, and a power cut, which may leave pieces, ends the boot that all records belong
// to. So that pieces are told from damage, node.state.boot says which boot they are of; it is
// flushed.
//
// Not thread-safe; the daemon's loop owns it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/instance.h"
#include "node/local_device.h"
#include "node/process_identity.h"

namespace sluice::node {

// An instance, or a foreign process under a slice (`sluice run`).
struct InstanceRecord {
  Instance instance;
  bool foreign = false;
  ModelSpec model;
  Batching batching;
  std::string socket;          // where it serves; empty for a foreign one
  std::string log;             // its output
  uid_t uid = 0;               // its own; 0: the daemon's
  ProcessIdentity process;     // pid 0: not born yet
  std::string program;         // the file that it executes; empty for a foreign one
  ProcessIdentity owner;       // it ends when this one does; pid 0: nobody's
  int64_t ready_after_ms = 0;  // from the request to start it; 0: not yet
  UnixMillis ended = 0;
  Nanos used{0};             // busy time in all, when it has ended
  std::string device_fault;  // of its device, for which it is ended; empty: it is not
  std::string error;         // why it is gone
  bool stopped = false;      // it ended as it was asked to
  bool node_fault = false;   // its node ended its start: the daemon died, the disk was full, …

  bool operator==(const InstanceRecord&) const = default;
};

inline bool alive(const InstanceRecord& r) {
  return r.instance.state != InstanceState::kGone;
}

struct NodeState {
  std::string boot_id;
  uint32_t generation = 0;  // of the daemon's pages: one more at every start
  std::vector<LocalDevice> devices;
  std::vector<InstanceRecord> instances;  // in the order they were started

  bool operator==(const NodeState&) const = default;
};

std::string state_to_json(const NodeState& state);
Result<NodeState> state_from_json(std::string_view text);

class Registry {
 public:
  Registry(std::string path, std::string boot_id);

  // Nothing when there is no file yet, or pieces of one of an earlier boot; an error when it is of
  // this boot and cannot be understood (survivors.h says what to do then).
  Result<std::optional<NodeState>> load() const;
  Result<void> save(const NodeState& state);
  const std::string& path() const { return path_; }

 private:
  std::string boot_path() const { return path_ + ".boot"; }

  std::string path_;
  std::string boot_id_;
  bool boot_noted_ = false;
};

}  // namespace sluice::node
