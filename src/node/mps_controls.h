// The MPS control daemons of a node's GPUs, one each, where MPS is wanted: which processes may be
// clients, and how a client ends. A server has clients of one user. The first client's user has it,
// until its last client has ended; a program that needs no part of the SMs does not take it.
//
// Belongs to the daemon's loop, and must outlive its coroutines.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/mps_control.h"
#include "node/data_paths.h"
#include "node/registry.h"

namespace sluice::node {

// The place of the GPU's control daemon.
MpsPlace mps_place(const std::string& program, const Device& gpu, const DataPaths& paths);

class MpsControls {
 public:
  // `program`: absolute, or empty: MPS is not used, because of `absent`. `user`: of functions'
  // programs. `state` outlives this. `changed` is called when describe() may have changed.
  MpsControls(asio::io_context& io, const Clock& clock, const std::string& program,
              std::string absent, uid_t user, const DataPaths& paths, const NodeState& state,
              const std::function<void()>& changed);

  // Returns a GPU's MPS state, for people.
  std::string describe(const DeviceId& gpu) const;

  // Returns whether MPS is to share the GPU, also while it does not serve.
  bool has(const DeviceId& gpu) const { return controls_.contains(gpu); }
  // Returns the user of the instance's processes as clients; none: they are no clients.
  std::optional<uid_t> user_of(const InstanceRecord& r) const;
  // Returns why a process of that user could not be a client of the GPU's server now; empty if it
  // could.
  std::string why_not(const DeviceId& gpu, std::optional<uid_t> user) const;
  // Returns the pipe directory for such a process as a client; none: it shares the whole GPU by
  // turns. For a slice that only MPS can enforce: kExhausted while the server has another user's
  // clients; kUnavailable if MPS does not serve it now; kInvalid if it never will.
  Result<std::optional<std::string>> pipes_for(const DeviceId& gpu, const Slice& slice,
                                               std::optional<uid_t> user) const;
  // Gives the GPU's server to the instance's user, if the instance is to be a client: to be called
  // once it has its reservation.
  void serve(const InstanceRecord& r);

  // Ends the process's work on the GPU, so that it may be killed.
  asio::awaitable<void> terminate(DeviceId gpu, ProcessIdentity client);

  // Ends control daemons without clients.
  asio::awaitable<void> quit();

 private:
  const InstanceRecord* holder(const DeviceId& gpu, uid_t user) const;
  bool may_serve(uid_t user) const;

  const std::string absent_;
  const uid_t functions_user_;
  const NodeState& state_;
  std::map<DeviceId, std::unique_ptr<MpsControl>> controls_;
};

}  // namespace sluice::node
