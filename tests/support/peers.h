// A node daemon and a gateway that serve a cluster in memory over their sockets, for the local
// adapter.
//
// Each peer answers on a thread of its own; the mutex guards the cluster.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tests/support/fake_cluster.h"
#include "wire/http/http.h"
#include "wire/json/birth_json.h"
#include "wire/json/json.h"

namespace sluice::control {

// A server that can stop and restart on the same socket.
class TestPeer {
 public:
  using Answer = std::function<wire::HttpResponse(const wire::HttpRequest&)>;

  TestPeer(std::string socket, Answer answer)
      : socket_(std::move(socket)), answer_(std::move(answer)) {
    come();
  }
  ~TestPeer() { go(); }

  void come() {
    io_ = std::make_unique<boost::asio::io_context>(1);
    server_ = std::make_unique<wire::HttpServer>(
        *io_, std::move(*wire::listen_on({.path = socket_})),
        [this](wire::HttpRequest request) -> wire::asio::awaitable<wire::HttpResponse> {
          co_return answer_(request);
        });
    thread_ = std::thread([this] { io_->run(); });
  }
  void go() {
    if (!thread_.joinable()) return;
    io_->stop();
    thread_.join();
    server_.reset();
    io_.reset();
  }

 private:
  const std::string socket_;
  const Answer answer_;
  std::unique_ptr<boost::asio::io_context> io_;
  std::unique_ptr<wire::HttpServer> server_;
  std::thread thread_;
};

inline nlohmann::json test_state(const Observation& o) {
  nlohmann::json state = {{"boot_id", o.nodes.front().node.boot_id},
                          {"devices", nlohmann::json::array()},
                          {"instances", nlohmann::json::array()}};
  for (const Device& d : o.devices) state["devices"].push_back(wire::to_json(d));
  for (const ObservedInstance& i : o.instances) {
    state["instances"].push_back(wire::to_json(i.instance));
    state["instances"].back().update({{"socket", i.address}, {"pid", i.pid}});
  }
  return state;
}

inline nlohmann::json test_stats(const ObservedGateway& g) {
  nlohmann::json stats = {{"started", g.started},
                          {"told", 1},
                          {"version", std::max<int64_t>(g.routes_version, 0)},
                          {"busy", g.busy},
                          {"functions", nlohmann::json::array()}};
  for (const ObservedTraffic& t : g.traffic)
    stats["functions"].push_back(
        {{"name", to_string(t.function)}, {"requests", t.requests}, {"ok", t.ok}});
  return stats;
}

inline wire::HttpResponse test_response(const Result<void>& outcome) {
  return outcome.ok() ? wire::json_response(nlohmann::json::object())
                      : wire::error_response(outcome.error());
}

// Answers as the node daemon does. REQUIRES: the cluster's mutex is held.
inline wire::HttpResponse node_answer(FakeCluster& cluster, const wire::HttpRequest& request) {
  using wire::http::verb;
  const auto path = wire::parse_target(request.target())->path;  // v1, the kind, the id
  if (request.method() == verb::get) return wire::json_response(test_state(cluster.observe()));
  const auto body = nlohmann::json::parse(request.body());
  if (request.method() == verb::post)
    return test_response(cluster.start({.instance = *wire::instance_from(body)}));
  const std::string& id = path.at(2);
  if (path.at(1) == "devices") return test_response(cluster.set_drained(id, body["drained"]));
  if (request.method() == verb::delete_)
    return test_response(cluster.stop(id, Millis(body["drain_ms"].get<int64_t>())));
  Parts parts;
  for (const auto& part : body.value("parts", nlohmann::json::array({body})))
    parts.push_back(*wire::part_from(part));
  return test_response(cluster.resize(id, parts));
}

// Answers as a gateway that knows only whole tables. REQUIRES: the cluster's mutex is held.
inline wire::HttpResponse gateway_answer(FakeCluster& cluster, const wire::HttpRequest& request) {
  using wire::http::verb;
  if (request.method() == verb::get)
    return wire::json_response(test_stats(cluster.observe().gateways.front()));
  if (request.method() != verb::put) return wire::error_response(404, "whole tables alone");
  const RoutingTable table{.version = nlohmann::json::parse(request.body())["version"]};
  const auto busy = cluster.set_routes(cluster.seen.gateways.front().name, table);
  if (!busy.ok()) return wire::error_response(busy.error());
  return wire::json_response({{"version", table.version}, {"busy", *busy}});
}

}  // namespace sluice::control
