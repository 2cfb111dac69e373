#include "control/peers/gateway_peer.h"

#include <utility>

#include "wire/json/json.h"
#include "wire/json/routing_json.h"

namespace sluice::control {

using nlohmann::json;
using wire::http::verb;

namespace {

// Of a gateway's statistics: when it began to count, and the number of this answer.
struct Told {
  UnixMillis started = 0;
  int64_t number = 0;
};

Result<Told> told_by(const json& stats) {
  wire::Fields f(stats, "stats");
  const Told told{f.integer("started", 0, 0, INT64_MAX), f.integer("told", 0, 0, INT64_MAX)};
  return f.finish(told);
}

}  // namespace

GatewayPeer::GatewayPeer(PeerThread& thread, PeerAddress at, std::string name, OrdersWait& wait,
                         std::function<void()> on_quiet)
    : name_(std::move(name)), wait_(wait), calls_(thread, std::move(at), std::move(on_quiet)) {}

ObservedGateway GatewayPeer::observe() {
  ObservedGateway g{.name = name_};
  const auto stats = calls_.take_poll();
  const Result<Told> told = !stats        ? Result<Told>(Told{})
                            : stats->ok() ? told_by(**stats)
                                          : Result<Told>(stats->error());
  if (stats) fault_ = told.ok() ? "" : told.error().message;
  if (stats && told.ok()) {
    // A restarted gateway counts from zero: request full statistics next.
    const bool whole = told_ == 0 || told->started == started_;
    told_ = whole ? told->number : 0;
    started_ = told->started;
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
