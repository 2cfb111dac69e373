// The MPS control daemons of a node's GPUs, one each, where MPS is wanted: who may be whose client,
// and how a client ends.
//
// Belongs to the daemon's loop, and must outlive its coroutines.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/instance_launcher.h"
#include "node/local_device.h"
#include "node/mps_control.h"

namespace sluice::node {

class MpsControls {
 public:
  // `program`: absolute, or empty: MPS is not used, because of `absent`. `changed` is called when
  // describe() may have.
  MpsControls(asio::io_context& io, const Clock& clock, const std::string& program,
              std::string absent, const DataPaths& paths, const std::vector<LocalDevice>& devices,
              const std::function<void()>& changed);

  // How a GPU stands to MPS, for people.
  std::string describe(const Device& gpu) const;

  // Where the process would be a client; none: it shares the GPU by turns, whole. Where its slice
  // is one that only MPS can make true: kUnavailable, MPS does not serve it now; kInvalid, nor will
  // it.
  Result<std::optional<std::string>> pipes_for(const Device& gpu, const Slice& slice,
                                               pid_t process) const;

  // Ends what the process has on the GPU, so that it may be killed.
  asio::awaitable<void> terminate(DeviceId gpu, ProcessIdentity client);

  // Control daemons without clients end.
  asio::awaitable<void> quit();

 private:
  std::string why_not(const Device& gpu, pid_t process) const;

  const std::string absent_;
  std::map<DeviceId, std::unique_ptr<MpsControl>> controls_;
};

}  // namespace sluice::node
