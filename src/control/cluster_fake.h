// A cluster in memory, for tests: two devices of a whole core each, and a saboteur. Instances come
// up and drain in the time they are told to take on the clock that is handed in; what it is told to
// lose it acknowledges and forgets. Test code alone includes this. One thread.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "base/clock.h"
#include "control/cluster.h"

namespace sluice::control {

class FakeCluster : public Cluster {
 public:
  explicit FakeCluster(const Clock& clock) : clock_(clock) {}

  Observation observe() override;
  Result<void> start(const StartOrder& order) override;
  Result<void> resize(const InstanceId& id, const Slice& slice, const Position& position) override;
  Result<void> stop(const InstanceId& id, Nanos drain) override;
  Result<void> set_drained(const DeviceId& device, bool drained) override;
  Result<std::set<InstanceId>> set_routes(const nlohmann::json& table) override;

  // ---- the saboteur ----
  int lose_starts = 0, lose_stops = 0, lose_resizes = 0;  // so many of the next ones
  bool refuse_starts = false;                             // for lack of something
  bool repeat_starts = false;  // every start is carried out twice, as by a retried reply
  bool node_there = true, gateway_there = true;
  std::optional<Nanos> start_takes;  // nothing: instances start when all() says so
  std::optional<Nanos> drain_takes;
  std::set<int> broken_revisions;    // their instances end instead of becoming ready
  void kill(const FunctionName& f);  // one that is ready
  void restart_node();               // what starts ends: its daemon died
  void down();                       // an orderly end: all instances are stopped
  void restart_gateway();            // it counts from zero and knows no routes

  // ---- traffic: so many requests a second, all answered in 10 ms ----
  std::map<FunctionName, double> load;
  std::map<FunctionName, int> once;  // requests that come all at once, at the next observation
  std::set<FunctionName> malformed;  // its requests are answered with 400
  std::map<FunctionName, int> each;  // inferences that a request brings; absent: 1
  std::set<FunctionName> held;       // their ready instances have a request that does not end
  void hang(const FunctionName& f);  // the ready instances answer nothing from now on

  // ---- what tests look at ----
  void all(InstanceState from, InstanceState to);
  int count(int revision, InstanceState state) const;
  Observation seen;
  nlohmann::json routes;
  int starts = 0, stops = 0, resizes = 0;  // asked for
  std::string last_model;                  // the path of the last start
  int tables = 0;                          // that the gateway was given
  Nanos last_drain{};                      // of the last stop
  std::map<DeviceId, std::string> faults;  // of devices that their node has drained

 private:
  void carry_on();
  void hold();
  void serve(Nanos elapsed);
  ObservedInstance* find(const InstanceId& id);

  const Clock& clock_;
  Time seen_at_{};
  std::map<InstanceId, Time> changed_;  // when it began to start or to drain
  std::map<DeviceId, bool> drained_;
  std::map<InstanceId, Time> hung_;  // since when their requests are overdue
  UnixMillis gateway_started_ = 1;
};

}  // namespace sluice::control
