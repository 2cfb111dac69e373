#include "control/peers/gateway_peer.h"

#include <utility>

#include "wire/json/routing_json.h"

namespace sluice::control {

using nlohmann::json;
using wire::http::verb;

GatewayPeer::GatewayPeer(PeerThread& thread, PeerAddress at, std::string name, OrdersWait& wait,
                         std::function<void()> on_quiet)
    : name_(std::move(name)), wait_(wait), calls_(thread, std::move(at), std::move(on_quiet)) {}

ObservedGateway GatewayPeer::observe() {
  ObservedGateway g{.name = name_};
  const auto stats = calls_.take_poll();
  if (stats) fault_ = stats->ok() ? "" : stats->error().message;
  if (stats && stats->ok()) {
    const auto started = (*stats)->value("started", UnixMillis{0});
    // A restarted gateway counts from zero: request full statistics next.
    const bool whole = told_ == 0 || started == started_;
    told_ = whole ? (*stats)->value("told", int64_t{0}) : 0;
    started_ = started;
    seen_ = unix_now();
    if (whole) take_stats(**stats, g);
  }
  g.seen = seen_;
  return g;
}

// The gateway refuses a change if it has another table (kConflict: it was restarted), or supports
// no changes (kNotFound: it is of an older version).
Result<std::set<InstanceId>> GatewayPeer::set_routes(const RoutingTable& table) {
  const RoutingTable before = std::exchange(routes_, {});
  Result<json> answer = Error{ErrorKind::kNotFound, "no table to change"};
  if (before.version > 0)
    answer =
        wait_.ask(calls_, verb::patch, "/v1/routes", wire::to_json(change_between(before, table)));
  if (!answer.ok() &&
      (answer.error().kind == ErrorKind::kConflict || answer.error().kind == ErrorKind::kNotFound))
    answer = wait_.ask(calls_, verb::put, "/v1/routes", wire::to_json(table));
  if (!answer.ok()) return answer.error();
  routes_ = table;
  return busy_from(*answer);
}

}  // namespace sluice::control
