// ClusterObjects: what KubeCluster (kube_cluster.h) reads and writes at the API server.
//
// Thread-safe, and every call returns at once. Listings are copies that watches keep up to date;
// while the API server is away they stay as they were. An order is accepted, and written meanwhile.
// The implementation repeats by itself what may pass: the API server is away, has changed the
// object meanwhile (409), or limits the rate (429). What does not pass is a PodFailure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/birth.h"
#include "model/instance.h"
#include "model/routing.h"

namespace sluice::control {

// The agent of a Node. A Node that should have one is listed also while none runs there.
struct AgentObject {
  std::string node;      // the Node's name
  std::string endpoint;  // of the agent's API, "IP:PORT"; empty: none runs
  std::string pod;       // the agent's Pod, for people; empty: none runs
};

// A gateway is listed until its Pod is gone, also while it terminates: it may have requests.
struct GatewayObject {
  std::string name;      // of its Pod
  std::string endpoint;  // of its admin API, "IP:PORT"; empty: it has none yet
};

// A Pod that holds an instance. Its name is the instance's id.
struct InstancePod {
  InstanceId instance;
  std::string space;  // its namespace
  // That its affinity names, so also before the scheduler has bound it.
  std::string node;
  std::string phase;            // Pending, Running, Succeeded, Failed or Unknown
  std::string reason, message;  // the Pod's own, or those of its container
  // It has ended by no fault of its container's: it was evicted, preempted or not admitted.
  bool by_cluster = false;
  bool deleting = false;  // it has a deletionTimestamp
};

// An instance that its node's agent has accepted. Its namespace is the function's.
struct PodOrder {
  Instance instance;
  Birth birth;
  std::string node;
  int millicores = 0;  // of its device; 0: it is on a GPU
  std::string gpu;     // the UUID of its device; empty: it is on a CPU
};

// A Pod that could not be made, and cannot be by a repetition.
struct PodFailure {
  InstanceId instance;
  // kInvalid: the API server refused the Pod as it is. Else its namespace does not take it: a quota
  // is exhausted (kExhausted), it is being deleted or does not permit the Pod (kDenied).
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
};

class ClusterObjects {
 public:
  virtual ~ClusterObjects() = default;

  // Returns whether this process leads still. If not, agents get no more orders from it.
  virtual bool leads() const = 0;
  // Returns whether every listing has been complete once. Until then the others may be empty.
  virtual bool listed() const = 0;
  virtual std::vector<AgentObject> agents() const = 0;
  virtual std::vector<GatewayObject> gateways() const = 0;
  // The same listing as before unless a Pod has changed; never null.
  virtual std::shared_ptr<const std::vector<InstancePod>> pods() const = 0;

  // A Pod that exists already is a success: an order may be repeated.
  virtual void make_pod(const PodOrder& order) = 0;
  // So is a Pod that does not exist. Cancels an order to make it that has not been carried out.
  // `grace`: at least a second; with none the object would go before its processes.
  virtual void delete_pod(const std::string& space, const InstanceId& instance, Nanos grace) = 0;
  // Returns the failures since the last call.
  virtual std::vector<PodFailure> take_failures() = 0;

  // Writes functions' routes: new and changed ones, removed ones, then the version itself. With
  // `since` 0 they are all that there is to be; what else the API server has is removed. Changes
  // are written in their order, as later ones rest on earlier ones. A gateway reports a version
  // once it has all of that change.
  virtual void put_routes(const RoutingChange& change) = 0;
};

}  // namespace sluice::control
