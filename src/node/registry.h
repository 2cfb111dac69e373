// The daemon's lasting state: node.state. Written whole, to a new file that then takes the old
// one's name, so that a reader finds the state before or after, never between. It is not flushed to
// the disk, which would delay every resize by milliseconds. So it survives the daemon's death. A
// power cut may leave pieces, but ends the boot that all records belong to. To tell pieces from
// damage, node.state.boot says which boot they are of; it is flushed.
//
// Not thread-safe; the daemon's loop owns it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/birth.h"
#include "model/instance.h"
#include "node/local_device.h"
#include "process/process_identity.h"

namespace sluice::node {

// What starts and ends instances: the daemon, or as Pods the kubelet.
enum class Born { kByTheDaemon, kByTheKubelet };

// An instance, or a foreign process under a slice (`sluice run`).
struct InstanceRecord {
  Instance instance;
  bool foreign = false;
  Birth birth;              // none for a foreign one
  std::string socket;       // where it serves: a path or HOST:PORT; empty for a foreign one
  std::string log;          // its output
  uid_t uid = 0;            // its own, or its template's; 0: the daemon's, or not born yet
  ProcessIdentity process;  // of its first part, or of all on GPUs; pid 0: not born yet
  std::vector<ProcessIdentity> siblings;  // of its other parts on CPUs, in their order
  std::string program;                    // the file that it executes; empty: its own choice
  std::string pod;                        // its Pod's UID; empty: none, or not seen yet
  ProcessIdentity owner;                  // it ends when this one does; pid 0: no owner
  int64_t ready_after_ms = 0;             // from the request to start it; 0: not yet ready
  UnixMillis ended = 0;
  Nanos used{0};             // total busy time, once it has ended
  std::string device_fault;  // the fault of its device that ended it; empty: none
  std::string error;         // why it is gone
  bool stopped = false;      // it ended on request
  bool node_fault = false;   // its node ended its start: the daemon died, the disk was full, …

  bool operator==(const InstanceRecord&) const = default;
};

inline bool alive(const InstanceRecord& r) {
  return r.instance.state != InstanceState::kGone;
}

// The first process of each part, in the parts' order; on GPUs one of all parts. Its children
// belong to the same part.
inline std::vector<ProcessIdentity> first_processes(const InstanceRecord& r) {
  std::vector<ProcessIdentity> all{r.process};
  all.insert(all.end(), r.siblings.begin(), r.siblings.end());
  return all;
}

// A user's program, not the model server: it is ended by signals, and may work on a GPU.
inline bool is_program(const InstanceRecord& r) {
  return r.foreign || std::holds_alternative<ExecOfProgram>(r.birth);
}

struct NodeState {
  std::string boot_id;
  uint32_t generation = 0;  // of the daemon's pages: incremented at every start
  std::vector<LocalDevice> devices;
  std::vector<InstanceRecord> instances;  // in the order of their starts

  bool operator==(const NodeState&) const = default;
};

// In the form of node.state and the node API.
nlohmann::json siblings_json(const InstanceRecord& r);
std::string state_to_json(const NodeState& state);
Result<NodeState> state_from_json(std::string_view text);

class Registry {
 public:
  Registry(std::string path, std::string boot_id);

  // Returns nothing if there is no file yet, or pieces of one of an earlier boot. Returns an error
  // if it is of this boot and cannot be understood (survivors.h handles that).
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
