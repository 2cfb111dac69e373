#include "control/kept_traffic.h"

namespace sluice::control {
namespace {

using nlohmann::json;

template <class Counters>
struct Counter {
  const char* name;
  uint64_t Counters::*member;
};
constexpr Counter<TrafficTotals> kTotals[] = {
    {"requests", &TrafficTotals::requests},       {"ok", &TrafficTotals::ok},
    {"invalid", &TrafficTotals::invalid},         {"shed", &TrafficTotals::shed},
    {"failed", &TrafficTotals::failed},           {"late", &TrafficTotals::late},
    {"cold_starts", &TrafficTotals::cold_starts}, {"inferences", &TrafficTotals::inferences},
    {"retried", &TrafficTotals::retried}};
constexpr Counter<ObservedTraffic> kSeen[] = {{"requests", &ObservedTraffic::requests},
                                              {"ok", &ObservedTraffic::ok},
                                              {"invalid", &ObservedTraffic::invalid},
                                              {"shed", &ObservedTraffic::shed},
                                              {"failed", &ObservedTraffic::failed},
                                              {"timed_out", &ObservedTraffic::timed_out},
                                              {"gone", &ObservedTraffic::gone},
                                              {"late", &ObservedTraffic::late},
                                              {"cold_starts", &ObservedTraffic::cold_starts},
                                              {"retried", &ObservedTraffic::retried},
                                              {"repeated", &ObservedTraffic::repeated},
                                              {"inferences", &ObservedTraffic::inferences},
                                              {"gaps", &ObservedTraffic::gaps}};

json to_json(const Histogram& h) {
  return {{"sum_ns", h.sum().count()}, {"buckets", h.filled()}};
}

Histogram histogram_from(const json& j) {
  Histogram h;
  h.restore_sum(Nanos(j.value("sum_ns", int64_t{0})));
  for (const auto& [bucket, count] : j.value("buckets", std::vector<std::pair<int, uint64_t>>{}))
    h.restore(bucket, count);
  return h;
}

template <class Counters, size_t N>
json counters_to_json(const Counters& c, const Counter<Counters> (&table)[N]) {
  json out = {{"latency", to_json(c.latency)}};
  for (const auto& [name, member] : table) out[name] = c.*member;
  return out;
}

template <class Counters, size_t N>
Counters counters_from(const json& j, const Counter<Counters> (&table)[N]) {
  Counters c;
  for (const auto& [name, member] : table) c.*member = j.value(name, uint64_t{0});
  c.latency = histogram_from(j.value("latency", json::object()));
  return c;
}

}  // namespace

json to_json(const Traffic& traffic) {
  const ObservedTraffic& last = traffic.last();
  json seen = counters_to_json(last, kSeen);
  seen.update({{"concurrency_seconds", last.concurrency_seconds},
               {"gap_sum", last.gap_sum},
               {"gap_squares", last.gap_squares}});
  return {{"totals", counters_to_json(traffic.totals(), kTotals)}, {"seen", seen}};
}

void restore(Traffic& traffic, const json& j) {
  const json seen = j.value("seen", json::object());
  ObservedTraffic last = counters_from(seen, kSeen);
  last.concurrency_seconds = seen.value("concurrency_seconds", 0.0);
  last.gap_sum = seen.value("gap_sum", 0.0);
  last.gap_squares = seen.value("gap_squares", 0.0);
  traffic.restore(counters_from(j.value("totals", json::object()), kTotals), last);
}

}  // namespace sluice::control
