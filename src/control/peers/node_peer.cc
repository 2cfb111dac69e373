#include "control/peers/node_peer.h"

#include <utility>

#include "wire/json/birth_json.h"
#include "wire/json/json.h"

namespace sluice::control {

using nlohmann::json;
using wire::http::verb;

NodePeer::NodePeer(PeerThread& thread, PeerAddress at, std::string name, OrdersWait& wait,
                   std::function<void()> on_quiet)
    : name_(std::move(name)), wait_(wait), calls_(thread, std::move(at), std::move(on_quiet)) {}

std::optional<NodeReport> NodePeer::take_report() {
  const auto state = calls_.take_poll();
  if (state) fault_ = state->ok() ? "" : state->error().message;
  if (!state || !state->ok()) return std::nullopt;
  NodeReport report = node_report_from(**state);
  report.node.seen = unix_now();
  if (!name_.empty()) name_in_cluster(report, name_);
  return report;
}

Result<void> NodePeer::order(verb verb, const std::string& target, json body) {
  const auto answer = wait_.ask(calls_, verb, target, std::move(body));
  if (!answer.ok()) return answer.error();
  return {};
}

// A part alone in the form that older node daemons read as well.
json NodePeer::body_of(Parts parts) const {
  for (Part& part : parts) part.device = name_on_node(part.device, name_);
  if (parts.size() == 1) return wire::to_json(parts.front());
  json all = json::array();
  for (const Part& part : parts) all.push_back(wire::to_json(part));
  return {{"parts", std::move(all)}};
}

Result<void> NodePeer::start(const StartOrder& order) {
  const Instance& i = order.instance;
  json body = body_of(i.parts);
  body.update({{"id", i.id},
               {"function", to_string(i.function)},
               {"revision", i.revision},
               {"batch", i.batch},
               {"arbiter", i.arbiter}});
  body.update(wire::to_json(order.birth));
  return this->order(verb::post, "/v1/instances", std::move(body));
}

Result<void> NodePeer::resize(const InstanceId& id, const Parts& parts) {
  return order(verb::patch, "/v1/instances/" + id, body_of(parts));
}

Result<void> NodePeer::stop(const InstanceId& id, Nanos drain) {
  return order(verb::delete_, "/v1/instances/" + id, {{"drain_ms", drain.count() / 1'000'000}});
}

Result<void> NodePeer::set_drained(const DeviceId& device, bool drained) {
  return order(verb::patch, "/v1/devices/" + name_on_node(device, name_), {{"drained", drained}});
}

}  // namespace sluice::control
