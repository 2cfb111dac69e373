// Paths under the data directory, and the ids that may name them. Values and free functions; any
// thread.
#pragma once

#include <string>

#include "base/result.h"
#include "model/instance.h"

namespace sluice::node {

struct DataPaths {
  std::string data;
  std::string permits{};  // the folder that has permit.sock and nothing else; empty: run()

  std::string state() const { return run() + "/node.state"; }
  std::string memory() const { return run() + "/node.memory"; }
  std::string lock() const { return data + "/node.lock"; }
  std::string logs() const { return data + "/logs"; }
  std::string homes() const { return data + "/artifacts"; }  // of programs (program_home.h)
  std::string secrets() const { return data + "/secrets"; }  // for programs (wire/secret_file.h)
  std::string run() const { return data + "/run"; }
  std::string node_socket() const { return run() + "/node.sock"; }
  std::string permit_socket() const { return (permits.empty() ? run() : permits) + "/permit.sock"; }
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

// Ids become file names: letters, digits, '-', '_' and '.', not first. Returns kInvalid otherwise,
// or if the id is too long for the path of a socket.
Result<void> check_id(const InstanceId& id, const DataPaths& paths);

}  // namespace sluice::node
