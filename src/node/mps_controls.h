// The MPS control daemons of a node's GPUs, one each, where MPS is wanted: which processes may be
// clients, and how a client ends.
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
#include "node/local_device.h"

namespace sluice::node {

class MpsControls {
 public:
  // `program`: absolute, or empty: MPS is not used, because of `absent`. `changed` is called when
  // describe() may have changed.
  MpsControls(asio::io_context& io, const Clock& clock, const std::string& program,
              std::string absent, const DataPaths& paths, const std::vector<LocalDevice>& devices,
              const std::function<void()>& changed);

  // Returns a GPU's MPS state, for people.
  std::string describe(const Device& gpu) const;

  // Returns why the process would not be a client of the GPU's server; empty if it would.
  std::string why_not(const Device& gpu, pid_t process) const;
  // Returns the pipe directory for the process as a client; none: it shares the whole GPU by turns.
  // For a slice that only MPS can enforce: kUnavailable if MPS does not serve it now; kInvalid if
  // it never will.
  Result<std::optional<std::string>> pipes_for(const Device& gpu, const Slice& slice,
                                               pid_t process) const;

  // Ends the process's work on the GPU, so that it may be killed.
  asio::awaitable<void> terminate(DeviceId gpu, ProcessIdentity client);

  // Ends control daemons without clients.
  asio::awaitable<void> quit();

 private:
  const std::string absent_;
  std::map<DeviceId, std::unique_ptr<MpsControl>> controls_;
};

}  // namespace sluice::node
