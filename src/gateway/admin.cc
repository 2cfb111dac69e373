#include "gateway/admin.h"

#include <algorithm>

#include "base/log.h"
#include "base/read_file.h"
#include "base/replace_file.h"
#include "wire/json/routing_json.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

json to_json(const Histogram& h) {
  json buckets = json::array();
  for (const auto& [bucket, count] : h.filled()) buckets.push_back({bucket, count});
  return {{"sum_ns", h.sum().count()}, {"buckets", buckets}};
}

json to_json(const SizeHistogram& h) {
  return {{"sum", h.sum()}, {"buckets", h.filled()}};
}

// Returns how long it has answered nothing since a request timed out there.
Nanos overdue(const Upstream& u, Time now) {
  return u.overdue_since == Time{} ? Nanos(0) : now - u.overdue_since;
}

json to_json(const Upstream& u, Time now) {
  json out{{"id", u.id},
           {"in_flight", u.outstanding},
           {"answered", u.answered},
           {"inferences", u.inferences},
           {"late", u.late},
           {"slow", u.slow},
           {"busy_us", u.busy.count() / 1000},
           {"overdue_us", overdue(u, now).count() / 1000}};
  if (u.answered > 0)
    out.update({{"latency_us", to_json(u.latency)}, {"body_bytes", to_json(u.body_bytes)}});
  return out;
}

json to_json(const FunctionStats& s, Time now) {
  const Counters& c = s.counters;
  json instances = json::array();
  for (const Upstream& u : s.instances) instances.push_back(to_json(u, now));
  return {{"name", to_string(s.name)},
          {"requests", c.requests},
          {"ok", c.ok},
          {"invalid", c.invalid},
          {"shed", c.shed},
          {"failed", c.failed},
          {"timed_out", c.timed_out},
          {"gone", c.gone},
          {"late", c.late},
          {"cold_starts", c.cold_starts},
          {"retried", c.retried},
          {"repeated", c.repeated},
          {"inferences", c.inferences},
          {"queued", s.queued},
          {"in_flight", s.in_flight},
          {"concurrency_ns", c.concurrency_seconds * 1e9},
          {"gaps", {{"n", c.gaps}, {"sum", c.gap_sum}, {"sum2", c.gap_squares}}},
          {"latency_us", to_json(c.latency)},
          {"queue_us", to_json(c.waiting)},
          {"instances", instances}};
}

}  // namespace

AdminApi::AdminApi(Dispatcher& dispatcher, const Clock& clock, std::string routes_file)
    : dispatcher_(dispatcher),
      clock_(clock),
      routes_file_(std::move(routes_file)),
      started_(unix_now()) {}

wire::asio::awaitable<wire::HttpResponse> AdminApi::handle(wire::HttpRequest request) {
  using wire::http::verb;
  const std::string_view target(request.target().data(), request.target().size());
  if (target == "/v1/routes" && request.method() == verb::put) co_return put_routes(request.body());
  if (target == "/v1/routes" && request.method() == verb::patch)
    co_return change_routes(request.body());
  if (target == "/v1/routes" && request.method() == verb::get)
    co_return wire::json_response(wire::to_json(dispatcher_.table()));
  if (request.method() == verb::get)
    if (const auto asked = wire::parse_target(target);
        asked.ok() && asked->path == std::vector<std::string>{"v1", "stats"})
      co_return wire::json_response(
          stats(std::strtoull(asked->get("since", "0").c_str(), nullptr, 10)));
  co_return wire::error_response(404, "no such path");
}

wire::HttpResponse AdminApi::put_routes(const std::string& body) {
  const auto parsed = wire::parse_json(body);
  if (!parsed.ok()) return wire::error_response(parsed.error());
  auto table = table_from(*parsed);
  if (!table.ok()) return wire::error_response(table.error());
  dispatcher_.set_table(std::move(*table), clock_.now());
  return routes_taken();
}

wire::HttpResponse AdminApi::change_routes(const std::string& body) {
  const auto parsed = wire::parse_json(body);
  if (!parsed.ok()) return wire::error_response(parsed.error());
  const auto change = change_from(*parsed);
  if (!change.ok()) return wire::error_response(change.error());
  if (!dispatcher_.change_table(*change, clock_.now()))
    return wire::error_response(
        409, "routes.since: the table here is not of version " + std::to_string(change->since));
  return routes_taken();
}

// A table that cannot be kept still applies: serving comes before surviving a restart. The file
// holds tokens: 0600.
wire::HttpResponse AdminApi::routes_taken() {
  const RoutingTable table = dispatcher_.table();
  if (!routes_file_.empty())
    if (const auto saved = replace_file(routes_file_, wire::to_json(table).dump()); !saved.ok())
      log::warn("routes: {}", saved.error().message);
  return wire::json_response({{"version", table.version}, {"busy", dispatcher_.busy()}});
}

// Returns the functions that changed since the answer of that number; 0: all.
json AdminApi::stats(uint64_t since) {
  json functions = json::array();
  const Time now = clock_.now();
  std::map<FunctionName, Told> told;  // without removed ones
  ++answers_;
  for (const FunctionStats& s : dispatcher_.stats(now)) {
    Told& t = told[s.name] = told_[s.name];
    const bool busy =
        s.queued > 0 || s.in_flight > 0 || std::ranges::any_of(s.instances, [](const Upstream& u) {
          return u.outstanding > 0 || u.overdue_since != Time{};
        });
    if (busy || t.busy || t.at == 0 || s.counters != t.counters) t = {s.counters, busy, answers_};
    if (t.at > since) functions.push_back(to_json(s, now));
  }
  told_ = std::move(told);
  return {{"started", started_},
          {"told", answers_},
          {"version", dispatcher_.table().version},
          {"functions", functions},
          {"busy", dispatcher_.busy()}};
}

void load_table(const std::string& file, Dispatcher& dispatcher, Time now) {
  if (file.empty()) return;
  const Result<std::string> text = read_file(file);
  if (!text.ok() && text.error().kind == ErrorKind::kNotFound) return;
  const auto parsed = text.ok() ? wire::parse_json(*text) : text.error();
  auto table = parsed.ok() ? table_from(*parsed) : Result<RoutingTable>(parsed.error());
  if (!table.ok()) {
    log::warn("routes: {}: {}: starting without", file, table.error().message);
    return;
  }
  log::info("routes: {} functions from {}", table->functions.size(), file);
  dispatcher.set_table(std::move(*table), now);
}

}  // namespace sluice::gateway
