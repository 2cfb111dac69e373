// Instances that are Pods (pods.h). Nothing is started here: the launcher waits for the process
// that the kubelet starts, which is in its cgroups and runs from the beginning. Meanwhile it holds
// every container of the Pod to the slice's quota as soon as there is one.
#pragma once

#include "node/enforcer.h"
#include "node/launcher.h"
#include "node/pods.h"
#include "node/records.h"

namespace sluice::node {

class PodLauncher : public Launcher {
 public:
  PodLauncher(asio::io_context& io, const Clock& clock, const Pods& pods, Records& records,
              Enforcer& enforcer, Nanos ready_patience);

  // Waits for the first process of the Pod's container, and notes the Pod in the record. Returns
  // kTimeout if there is none in time, kInvalid if the Pod has ended, kUnavailable if the instance
  // was stopped.
  // REQUIRES: the instance has one part
  asio::awaitable<Result<Newborn>> bear(const InstanceRecord& r, size_t part) override;
  Result<void> go(const Infant&) override { return {}; }
  // Waits until the Pod has an address, which it notes in the record, and answers there.
  asio::awaitable<Result<void>> wait_until_ready(const Infant& infant) override;

 private:
  Result<std::optional<ProcessIdentity>> look_for_process(const InstanceId& id);

  asio::io_context& io_;
  const Clock& clock_;
  const Pods& pods_;
  Records& records_;
  Enforcer& enforcer_;
  const Nanos ready_patience_;
};

// Returns the port of the Pod's server.
int port_of_pod(const Birth& birth);

}  // namespace sluice::node
