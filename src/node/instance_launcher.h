// From a record to a process that waits for Go: its socket, log and uid, and the fork of its
// template. Belongs to the daemon's loop.
#pragma once

#include <set>
#include <string>

#include "node/registry.h"
#include "node/zygote_host.h"

namespace sluice::node {

// Where things lie under the data directory.
struct DataPaths {
  std::string data;

  std::string state() const { return run() + "/node.state"; }
  std::string memory() const { return run() + "/node.memory"; }
  std::string lock() const { return data + "/node.lock"; }
  std::string logs() const { return data + "/logs"; }
  std::string run() const { return data + "/run"; }
  std::string node_socket() const { return run() + "/node.sock"; }
  std::string permit_socket() const { return run() + "/permit.sock"; }
  std::string permit_sockets() const { return run() + "/p"; }
  std::string permit_socket_of(const InstanceId& id) const {
    return permit_sockets() + "/" + id + "/sock";
  }
  std::string instances() const { return run() + "/i"; }
  std::string socket_of(const InstanceId& id) const { return instances() + "/" + id + ".sock"; }
  std::string mps_pipes(const DeviceId& gpu) const { return run() + "/mps/" + gpu; }
  std::string mps_logs(const DeviceId& gpu) const { return data + "/mps/" + gpu; }
  std::string mps_output(const DeviceId& gpu) const { return log_of("mps-" + gpu); }
  std::string stores() const { return run() + "/store"; }
  std::string store_socket(const DeviceId& gpu) const { return stores() + "/" + gpu + ".sock"; }
  std::string log_of(const InstanceId& id) const { return logs() + "/" + id + ".log"; }
};

// Own uids for instances, none twice while its owner lives. Not given out again until the whole
// range has been, so that what a dead instance left behind has gone.
class UidPool {
 public:
  UidPool(uid_t first, uid_t count) : first_(first), count_(count) {}
  Result<uid_t> take();
  void keep(uid_t uid) { taken_.insert(uid); }  // of an adopted instance
  void give_back(uid_t uid) { taken_.erase(uid); }

 private:
  uid_t first_, count_;
  uid_t next_ = 0;
  std::set<uid_t> taken_;
};

struct Birth {
  ProcessIdentity process;
  Fd pidfd;
  Channel control;
};

class InstanceLauncher {
 public:
  InstanceLauncher(asio::io_context& io, ZygoteHost& zygote, DataPaths paths);

  // Binds r.socket, opens r.log and forks. The process waits for Go.
  asio::awaitable<Result<Birth>> bear(const InstanceRecord& r);

 private:
  asio::io_context& io_;
  ZygoteHost& zygote_;
  const DataPaths paths_;
};

// Ids become file names: letters, digits, '-', '_' and '.', not first.
Result<void> check_id(const InstanceId& id, const DataPaths& paths);

// The last lines of a log, for people: what a dead instance said.
std::string last_lines(const std::string& path, size_t bytes = 400);

}  // namespace sluice::node
