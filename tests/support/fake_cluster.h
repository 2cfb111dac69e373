// A cluster in memory, in virtual time, for tests: devices (by default two of a whole core each) of
// the nodes that they name, gateways (by default one), and a saboteur. Nodes come and go. Instances
// start and drain in the set time on the given clock. An order may take long until it has an
// effect. An action that it is set to lose it acknowledges and drops. Only test code includes this.
// One thread, except for answer().
#pragma once

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/cluster.h"

namespace sluice::control {

class FakeCluster : public Cluster {
 public:
  explicit FakeCluster(const Clock& clock);

  void poll() override { answered_ = !slow; }
  bool settled() const override { return answered_; }
  void on_settled(std::function<void()> call) override { on_settled_ = std::move(call); }
  Observation observe() override;
  void watch_pages(const std::vector<MetricsPage>& all) override { pages = all; }
  Result<void> start(const StartOrder& order) override;
  Result<void> resize(const InstanceId& id, const Parts& parts) override;
  Result<void> stop(const InstanceId& id, Nanos drain) override;
  Result<void> set_drained(const DeviceId& device, bool drained) override;
  Result<std::set<InstanceId>> set_routes(const std::string& gateway,
                                          const RoutingTable& table) override;

  // ---- calls that take long ----
  bool slow = false;     // polls are answered by answer()
  void answer();         // to the poll; any thread, but not beside on_settled()
  Nanos starts_take{0};  // until an accepted start shows

  // ---- the saboteur ----
  int lose_starts = 0, lose_stops = 0, lose_resizes = 0;  // so many of the next ones
  bool refuse_starts = false;                             // for lack of something
  bool repeat_starts = false;  // every start is carried out twice, as by a retried reply
  bool node_there = true, gateway_there = true;  // any of them
  std::set<std::string> away;                    // nodes and gateways that do not answer
  void reboot(const std::string& node);          // nothing from before runs on it
  std::optional<Nanos> start_takes;              // nothing: instances start by all()
  std::optional<Nanos> drain_takes;
  std::set<int> broken_revisions;    // their instances end instead of becoming ready
  void kill(const FunctionName& f);  // one that is ready
  void end(const InstanceId& id);    // by itself, with 0
  void restart_node();               // starting instances end: its daemon died
  void down();                       // an orderly end: all instances are stopped
  void restart_gateway();            // each counts from zero and knows no routes

  // ---- traffic: so many requests a second over all gateways, all answered in 10 ms ----
  std::map<FunctionName, double> load;
  std::map<FunctionName, int> once;  // requests that all arrive at the next observation
  std::set<FunctionName> malformed;  // its requests are answered with 400
  std::map<FunctionName, int> each;  // inferences that a request brings; absent: 1
  std::set<FunctionName> held;       // their ready instances have a request that does not end
  void hang(const FunctionName& f);  // the ready instances answer nothing from now on

  // ---- contents ----
  std::vector<Device> devices;  // by id
  void add_gateway(const std::string& name);
  // A node with one whole core comes, its device NAME/cpu0; it goes, with all that it holds.
  void add_node(const std::string& name);
  void remove_node(const std::string& name);
  void adopt(const Instance& i);  // an instance from before the loop

  // ---- for tests to read ----
  void all(InstanceState from, InstanceState to);
  int count(int revision, InstanceState state) const;
  Observation seen;
  nlohmann::json routes;
  int starts = 0, stops = 0, resizes = 0;  // asked for
  std::string last_model;                  // the path of the last start
  std::vector<MetricsPage> pages;          // to be fetched
  int tables = 0;                          // that the gateway received
  Nanos last_drain{};                      // of the last stop
  std::map<DeviceId, std::string> faults;  // of devices that their node has cordoned

 private:
  void take_effect();
  void carry_on();
  void hold();
  void serve(Nanos elapsed);
  void serve(ObservedGateway& gateway, const FunctionName& f, uint64_t requests);
  void list_nodes();
  bool answers(const std::string& node) const {
    return answered_ && node_there && !away.contains(node);
  }
  Result<void> reach(const DeviceId& device) const;  // an error if its node is away
  Result<void> reach(const ObservedInstance* o) const;
  ObservedInstance* find(const InstanceId& id);

  const Clock& clock_;
  std::atomic<bool> answered_ = true;  // the last poll
  std::function<void()> on_settled_;
  std::vector<std::pair<Time, Instance>> accepted_;  // starts that do not show yet
  Time seen_at_{};
  std::map<InstanceId, Time> changed_;  // when it began to start or to drain
  std::map<DeviceId, bool> drained_;
  std::map<InstanceId, Time> hung_;           // since when their requests are overdue
  std::map<std::string, std::string> boots_;  // of nodes that were rebooted
};

}  // namespace sluice::control
