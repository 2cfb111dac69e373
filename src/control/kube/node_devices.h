// NodeDevices: shows on the Node what devices its agent has.
//
// - The annotation sluice.dev/devices has a line for each; by it the controller knows that there is
//   an agent.
// - A Node with GPUs has the resource sluice.dev/gpu-permille: thousandths of GPUs, without those
//   that take nothing new, and without what functions hold. The scheduler subtracts from it the
//   slices of users' Pods, as they were when the Pods were made. So it never counts a slice twice;
//   what has grown since is found out by the agent, which does not let such a Pod start.
// - A device that begins to fail is an Event of the Node. So are other devices than the agent had
//   before; a file on the node keeps these.
//
// turn() is for one thread. It writes what has changed, and everything once a minute: a kubelet
// that starts anew may have removed the resource.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "control/kube/object_writer.h"

namespace sluice::control {

// Of the agent's state (GET /v1/state): what is written into the Node. Pure.
nlohmann::json node_patch(const nlohmann::json& state);

// Of two lists of devices, a line each: what differs, for people; empty: nothing. Pure.
std::string changed_devices(const std::string& before, const std::string& now);

class NodeDevices {
 public:
  // `file`: of the devices that the agent had. The writer outlives it.
  NodeDevices(std::string node, std::string file, ObjectWriter& writer);

  void turn(const nlohmann::json& state, UnixMillis wall);

 private:
  void say_faults(const nlohmann::json& state, UnixMillis wall);
  void say_changes(const nlohmann::json& state, UnixMillis wall);
  // `about`: a device, or all of them. Events of one instant need names of their own.
  void say(const std::string& about, const std::string& reason, const std::string& message,
           bool is_good, UnixMillis wall);

  const std::string node_, file_;
  ObjectWriter& writer_;
  std::string known_;  // the devices, as the file has them
  nlohmann::json shown_;
  UnixMillis written_ = 0;
  std::map<std::string, std::string> faults_;  // by device
};

}  // namespace sluice::control
