// The Cluster port in virtual time: nodes with the node daemon's ledger, devices (device.h),
// instances with the model server's batcher, and one gateway with the live dispatcher. The control
// loop does not notice.
//
// It adds its events to the caller's queue, and takes the time from the caller's clock. One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "control/cluster.h"
#include "model/predictor.h"
#include "node/ledger.h"
#include "runtime/batcher.h"
#include "sim/device.h"
#include "sim/event_queue.h"
#include "sim/fault.h"
#include "sim/front_door.h"
#include "sim/worker_programs.h"

namespace sluice::sim {

// A device of the cluster: what its node reports of it, and how it computes.
struct DevicePlan {
  Device device;
  Physics physics;
};

// How long batches truly take, beside the predictor, which the policies ask.
struct Truth {
  double slowness = 1;   // true median ÷ predicted one
  double variation = 0;  // a batch takes up to so much more or less, evenly
  // The part of a batch's time alone in which only the program's host works. On GPUs; 0: it keeps
  // the device busy by itself.
  Share host = kNone;
  bool profiled = true;  // the policies have its profile
};

struct ClusterPlan {
  std::vector<DevicePlan> devices;                      // by id
  std::map<std::string, std::string> virtual_clusters;  // of nodes that belong to one
  std::vector<Nanos> cold_starts;  // how long starts take: one of these, drawn; not empty
  Nanos hop{0};                    // from the gateway to an instance, and back
  std::map<FunctionName, Truth> truths;
  Stepping stepping = Stepping::kExact;
  uint64_t seed = 1;
  std::set<uint64_t> refused;  // numbers of requests that the gateway refuses
};

class SimulatedCluster : public control::Cluster, public WorkerNode {
 public:
  // `predictor` says how long a batch takes alone on the whole of an instance's sm. The references
  // outlive it.
  SimulatedCluster(ClusterPlan plan, const Predictor& predictor, const ManualClock& clock,
                   EventQueue& events, std::function<void(const Answer&)> answered);

  // Training workers are started as these programs, which outlive it. Without any, a start of one
  // is refused.
  void run_workers_as(WorkerPrograms& programs) { programs_ = &programs; }
  void compute(const InstanceId& worker, Nanos work) override;
  void end_worker(const InstanceId& worker) override;

  control::Observation observe() override;
  Result<void> start(const control::StartOrder& order) override;
  Result<void> resize(const InstanceId& id, const Parts& parts) override;
  Result<void> stop(const InstanceId& id, Nanos drain) override;
  Result<void> set_drained(const DeviceId& device, bool drained) override;
  Result<std::set<InstanceId>> set_routes(const std::string& gateway,
                                          const RoutingTable& table) override;

  // Call every FrontDoor::kTick.
  void tick() { door_.tick(clock_.now()); }
  // A request arrives at the gateway.
  void arrive(const FunctionName& f, int inferences);

  // A fault begins; if it lasts, end() ends it. The fault outlives the cluster.
  void begin(const Fault& f);
  void end(const Fault& f);
  const ActiveFaults& faults() const { return faults_; }

  // Returns an error that names the first property that does not hold on a node whose reservations
  // have changed since the last call (check.cc).
  Result<void> check();
  // Calls it for every instance that the loop has not forgotten, by id.
  void each_instance(const std::function<void(const control::ObservedInstance&)>& call) const;
  // Returns whether a device of the type has that memory, takes something new and holds nothing.
  bool has_empty_device(const DeviceType& type, Bytes memory) const;
  const FrontDoor& door() const { return door_; }

  struct Use {
    int devices = 0, instances = 0;  // devices with at least one instance
    int64_t area = 0;                // Σ sm × request of them, in millionths of a device
    Bytes memory = 0;                // Σ memory of them
    Bytes memory_there = 0;          // of the devices with at least one
  };
  const Use& use() const { return use_; }
  struct Held {
    int instances = 0, ready = 0;
    int64_t area = 0;
  };
  std::map<FunctionName, Held> held() const;
  size_t open_requests() const { return door_.open(); }
  // Σ sm × busy time of all instances so far, in seconds.
  double busy_seconds() const;
  int64_t arbiter_steps() const;

 private:
  struct Machine;
  struct NodeState;
  struct Server {
    control::ObservedInstance seen;
    Machine* machine = nullptr;
    NodeState* node = nullptr;
    policy::ClientId client = 0;
    std::optional<runtime::Batcher> batcher;
    // A request as it reached the instance; its client may leave, and what it asked is computed.
    struct Item {
      Request* request = nullptr;
      uint64_t number = 0;
      int inferences = 1;
      Time due{};
    };
    std::map<uint64_t, Item> waiting;  // in the batcher, by the request's number
    std::vector<Item> running;         // the current batch
    bool is_worker = false;            // of a training job: it has no requests
    Time asked{};                      // when its start was ordered
    Time wake = Time::max();           // when the batcher is to be asked again
    Nanos used{0};                     // busy time, once it is gone

    bool idle() const { return running.empty() && waiting.empty(); }
  };
  struct Machine {
    DevicePlan plan;
    std::unique_ptr<SimulatedDevice> device;
    std::map<policy::ClientId, InstanceId> clients;
    policy::ClientId last_client = 0;
    NodeState* node = nullptr;
    Time scheduled = Time::max();  // of its next event in the queue
  };
  struct NodeState {
    node::Ledger ledger;
    std::vector<Machine*> machines;
    bool changed = false;  // since the last check
  };

  bool reachable(std::string_view node) const {
    return faults_.empty() || !faults_.any(Fault::Kind::kSilence, node);
  }
  Result<void> deliver(std::string node, const std::function<Result<void>()>& order);
  Result<Machine*> machine_of(const DeviceId& device);
  Server* find(const InstanceId& id);
  Result<void> place(Server& server);
  void count(const Server& server, int by);
  Result<void> start_now(const control::StartOrder& order);
  Result<void> resize_now(const InstanceId& id, const Part& to);
  Result<void> stop_now(const InstanceId& id, Nanos drain);
  Result<void> check(const NodeState& node) const;
  Result<void> check(const Machine& machine) const;
  void become_ready(const InstanceId& id);
  void begin_drain(Server& server, Nanos drain);
  void settle_drain(Server& server);
  std::vector<Server::Item> take_down(Server& server, const std::string& error, bool stopped);
  void hand_back(const std::vector<Server::Item>& lost);
  void end(Server& server, const std::string& error, bool stopped);
  void kill(const std::string& function);
  void fail(const DeviceId& device);
  bool hand_over(Request& request);
  void reach(const InstanceId& id, Request* request, uint64_t number, int more);
  void run_next(Server& server);
  void batch_ended(Machine& machine, policy::ClientId client);
  void advance(Machine& machine);
  void schedule(Machine& machine);
  Truth truth_of(const FunctionName& f) const;
  Nanos work(const Server& server, int batch);

  const ClusterPlan plan_;
  const Predictor& predictor_;
  const ManualClock& clock_;
  EventQueue& events_;
  Random random_;
  ActiveFaults faults_;
  std::map<std::string, NodeState> nodes_;
  std::map<DeviceId, Machine> machines_;
  std::map<InstanceId, Server> servers_;  // also ended ones that the loop has not forgotten
  Use use_;
  int64_t starts_ = 0;
  double busy_before_ = 0;  // busy_seconds() of instances that are gone
  WorkerPrograms* programs_ = nullptr;
  FrontDoor door_;
};

}  // namespace sluice::sim
