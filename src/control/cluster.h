// The Cluster port: the control loop's only interface to nodes and gateways. An adapter lists any
// number of both, which come and go (cluster_local.h: this machine's one node and one gateway).
//
// One thread, the loop's. Calls block for milliseconds, even if the callee hangs: an adapter whose
// calls take longer accepts an order and carries it out meanwhile. An accepted order takes effect
// later: observations show its progress, and the loop repeats an order that does not show. A failed
// order changed nothing that a later observation would not show. kUnavailable: its node or gateway
// does not answer. kTimeout: it did not in time, and may still carry the order out.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "base/result.h"
#include "base/size_histogram.h"
#include "model/birth.h"
#include "model/device.h"
#include "model/instance.h"
#include "model/node.h"
#include "model/routing.h"

namespace sluice::control {

// What a program counts itself since its start, by its page of metrics, under Triton's names.
struct ProgramCounts {
  double inferences = 0;  // nv_inference_count
  double executions = 0;  // nv_inference_exec_count
  // Sums over its requests, in µs: nv_inference_…_duration_us of request, queue, compute_infer.
  double request_us = 0, queue_us = 0, compute_us = 0;

  bool operator==(const ProgramCounts&) const = default;
};

// Where a program has its page of metrics.
struct MetricsPage {
  InstanceId instance;
  std::string address;  // "127.0.0.1:PORT" on its node
  std::string path;

  bool operator==(const MetricsPage&) const = default;
};

// An instance in its node's view.
struct ObservedInstance {
  Instance instance;
  std::string node;       // the node that it runs on
  bool reachable = true;  // false: its node does not answer, and this is its last report
  bool foreign = false;   // a user's own process under a slice: not ours to scale
  std::string address;    // where gateways reach it: on one machine, the path of a unix socket
  int64_t pid = 0;
  uint64_t start_time = 0;  // of the process, in the kernel's ticks
  int64_t ready_after_ms = 0;
  Nanos used{0};     // busy time so far, at its own sm
  Nanos ungated{0};  // the part of it on a GPU past the hook
  Nanos outside{0};  // CPU time of processes that have left its cgroup
  Bytes peak_memory = 0;
  std::optional<Bytes> memory_held;      // of its GPUs, if it is counted
  std::optional<ProgramCounts> program;  // if its page of metrics has them
  std::string device_fault;              // the fault of its device, for which its node ends it
  std::string error;                     // why it is gone
  UnixMillis ended = 0;                  // 0: it is alive, or its node does not report it
  bool stopped = false;                  // it ended on request, by any client
  bool node_fault = false;  // its node ended its start: its daemon died, its disk was full
};

inline bool alive(const ObservedInstance& o) {
  return o.instance.state != InstanceState::kGone;
}
// Returns what it may hold on all its devices.
inline Bytes memory_limit(const ObservedInstance& o) {
  Bytes sum = 0;
  for (const Part& p : o.instance.parts) sum += p.slice.memory;
  return sum;
}

// Returns nullptr if it is not among them.
// REQUIRES: sorted by id, as observations are.
inline const ObservedInstance* find(const std::vector<ObservedInstance>& all,
                                    const InstanceId& id) {
  const auto id_of = [](const ObservedInstance& o) -> const InstanceId& { return o.instance.id; };
  const auto found = std::ranges::lower_bound(all, id, {}, id_of);
  return found != all.end() && found->instance.id == id ? &*found : nullptr;
}
inline ObservedInstance* find_instance(std::vector<ObservedInstance>& all, const InstanceId& id) {
  return const_cast<ObservedInstance*>(find(all, id));
}
inline const Device* find(const std::vector<Device>& all, const DeviceId& id) {
  const auto found = std::ranges::lower_bound(all, id, {}, &Device::id);
  return found != all.end() && found->id == id ? &*found : nullptr;
}

// A function in this namespace belongs to `sluice profile`, which starts and stops its instances.
inline constexpr std::string_view kProfiling = "sluice-profile";
// Returns whether the loop decides about it.
inline bool ours(const ObservedInstance& o) {
  return !o.foreign && o.instance.function.space != kProfiling;
}

// How an instance's answers are distributed.
struct AnswerSpread {
  Histogram latency;         // arrival → last byte
  SizeHistogram body_bytes;  // of their requests

  bool operator==(const AnswerSpread&) const = default;
};

// The gateway's counts of an instance, since it has a route to it.
struct ObservedAnswers {
  InstanceId instance;
  int in_flight = 0;
  uint64_t answered = 0, inferences = 0;
  uint64_t late = 0;   // of the answered requests, after their function's objective
  uint64_t slow = 0;   // of these, those that took longer than the objective since the grant
  Nanos answering{0};  // the sum over its requests, from the grant to the end
  std::shared_ptr<const AnswerSpread> spread = nullptr;  // null: it has answered nothing
};

// A function's traffic, counted since the gateway started.
struct ObservedTraffic {
  FunctionName function;
  uint64_t requests = 0, ok = 0, invalid = 0, shed = 0, failed = 0, timed_out = 0, gone = 0,
           late = 0;
  uint64_t cold_starts = 0, retried = 0, inferences = 0;
  uint64_t repeated = 0;  // came again before a refusal's Retry-After had passed: no new demand
  int queued = 0, in_flight = 0;
  double concurrency_seconds = 0;
  uint64_t gaps = 0;
  double gap_sum = 0, gap_squares = 0;
  Histogram latency;
  std::vector<ObservedAnswers> instances;
};

// A device's momentary report.
struct DeviceLoad {
  int busy_percent = 0;
  Bytes memory_used = 0;
};

// A node, and its report apart from its devices and instances.
struct ObservedNode {
  Node node;
  UnixMillis seen = 0;      // when it last answered; 0: never
  bool backstop = true;     // the kernel holds programs that never ask for a permit
  std::string enforcement;  // how else slices are held, or what is missing
};

struct ObservedGateway {
  std::string name;
  bool there = false;   // false: it did not answer, and its traffic is unknown, not zero
  UnixMillis seen = 0;  // when it last answered; 0: never
  UnixMillis started = 0;
  int64_t routes_version = -1;
  // A function that is not listed has the counts of the observation before.
  std::vector<ObservedTraffic> traffic;
  std::set<InstanceId> busy;  // those with a request of the gateway's in hand
  // How long ago an instance's oldest request ran into its function's timeout, with no answer from
  // the instance since. An instance that is not listed has no such request.
  std::map<InstanceId, Nanos> overdue;
};

// An adapter lists every node and gateway of the cluster, also silent ones, and the devices and
// instances of those that answer. What is not listed is gone.
struct Observation {
  std::vector<ObservedNode> nodes;          // by name
  std::vector<Device> devices;              // by id
  std::map<DeviceId, DeviceLoad> loads;     // of GPUs that answer
  std::vector<ObservedInstance> instances;  // by id
  std::vector<ObservedGateway> gateways;    // by name
};

// Returns nullptr for an unknown name.
inline const ObservedNode* find_node(const Observation& o, const std::string& name) {
  const auto name_of = [](const ObservedNode& n) -> const std::string& { return n.node.name; };
  const auto found = std::ranges::lower_bound(o.nodes, name, {}, name_of);
  return found != o.nodes.end() && found->node.name == name ? &*found : nullptr;
}
// Returns whether any node answers, all do, and all gateways do. All are false for an empty list.
inline bool any_node_there(const Observation& o) {
  return std::ranges::any_of(o.nodes, [](const ObservedNode& n) { return n.node.reachable; });
}
inline bool all_nodes_there(const Observation& o) {
  return !o.nodes.empty() &&
         std::ranges::all_of(o.nodes, [](const ObservedNode& n) { return n.node.reachable; });
}
inline bool all_gateways_there(const Observation& o) {
  return !o.gateways.empty() && std::ranges::all_of(o.gateways, &ObservedGateway::there);
}

// The order to start an instance, beyond the decision.
struct StartOrder {
  Instance instance;
  Birth birth;
};

class Cluster {
 public:
  // Without an answer for so long, a node or gateway counts as away.
  static constexpr Nanos kAway = Millis(500);

  virtual ~Cluster() = default;

  // Requests the state of every node and gateway, and does not wait for it. An adapter that always
  // knows its cluster needs none of these three.
  virtual void poll() {}
  // Returns whether each node and gateway has answered all its calls, or is away.
  virtual bool settled() const { return true; }
  // Any thread calls `call` whenever settled() may have become true. Replaces the former call,
  // which does not run any more after this has returned.
  virtual void on_settled(std::function<void()> call) { (void)call; }

  // Returns the answers to the last poll. What has not answered it is unreachable.
  virtual Observation observe() = 0;
  // Replaces the pages of metrics that are fetched about once a second. Observations have their
  // counts. An adapter that reaches no program may leave them out.
  virtual void watch_pages(const std::vector<MetricsPage>& pages) { (void)pages; }
  // With all parts, on the node of their devices. Idempotent by the instance's id.
  virtual Result<void> start(const StartOrder& order) = 0;
  // All parts, in their order, or none.
  virtual Result<void> resize(const InstanceId& id, const Parts& parts) = 0;
  virtual Result<void> stop(const InstanceId& id,
                            Nanos drain) = 0;  // also forgets an ended one
  virtual Result<void> set_drained(const DeviceId& device, bool drained) = 0;
  // Returns the instances that have a request of that gateway's in hand under that table. Any other
  // instance that the table gives no more requests has none of this gateway's and will have none.
  virtual Result<std::set<InstanceId>> set_routes(const std::string& gateway,
                                                  const RoutingTable& table) = 0;
};

}  // namespace sluice::control
