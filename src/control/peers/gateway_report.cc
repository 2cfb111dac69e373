#include "control/peers/gateway_report.h"

#include <algorithm>

#include "base/log.h"
#include "wire/json/json.h"

namespace sluice::control {
namespace {

using nlohmann::json;
using wire::Fields;

constexpr int64_t kMostOfGateway = INT64_MAX;

// Returns a list's items in place; none if there is no list.
const json& items(Fields& f, std::string_view key) {
  static const json kNone = json::array();
  const json* list = f.child(key);
  return list != nullptr && list->is_array() ? *list : kNone;
}

// Fills in a histogram's buckets, as they travel.
void restore_buckets(auto& histogram, Fields& f) {
  for (const json& bucket : items(f, "buckets"))
    if (bucket.is_array() && bucket.size() == 2 && bucket[0].is_number_integer() &&
        bucket[1].is_number_unsigned())
      histogram.restore(bucket[0].get<int>(), bucket[1].get<uint64_t>());
}

Histogram histogram_from(const json* j) {
  Histogram h;
  if (j == nullptr || !j->is_object()) return h;
  Fields f(*j, "histogram");
  h.restore_sum(Nanos(f.integer("sum_ns", 0, 0, kMostOfGateway)));
  restore_buckets(h, f);
  return h;
}

SizeHistogram sizes_from(const json* j) {
  SizeHistogram h;
  if (j == nullptr || !j->is_object()) return h;
  Fields f(*j, "sizes");
  h.restore_sum(static_cast<uint64_t>(f.integer("sum", 0, 0, kMostOfGateway)));
  restore_buckets(h, f);
  return h;
}

// Returns nothing if it has no answer.
std::shared_ptr<const AnswerSpread> spread_from(Fields& instance) {
  const json* latency = instance.child("latency_us");
  if (latency == nullptr) return nullptr;
  return std::make_shared<AnswerSpread>(
      AnswerSpread{histogram_from(latency), sizes_from(instance.child("body_bytes"))});
}

Result<ObservedTraffic> traffic_from(const json& j) {
  Fields f(j, "traffic");
  const auto count = [&](const char* key) {
    return static_cast<uint64_t>(f.integer(key, 0, 0, kMostOfGateway));
  };
  ObservedTraffic t{.function = function_name(f.text("name"))};
  t.requests = count("requests");
  t.ok = count("ok");
  t.invalid = count("invalid");
  t.shed = count("shed");
  t.failed = count("failed");
  t.timed_out = count("timed_out");
  t.gone = count("gone");
  t.late = count("late");
  t.cold_starts = count("cold_starts");
  t.retried = count("retried");
  t.repeated = count("repeated");
  t.inferences = count("inferences");
  t.queued = static_cast<int>(f.integer("queued", 0, 0, 1'000'000'000));
  t.in_flight = static_cast<int>(f.integer("in_flight", 0, 0, 1'000'000'000));
  t.concurrency_seconds = f.number("concurrency_ns", 0, 0, 1e300) / 1e9;
  t.latency = histogram_from(f.child("latency_us"));
  if (const json* gaps = f.child("gaps")) {
    Fields g(*gaps, "gaps");
    t.gaps = static_cast<uint64_t>(g.integer("n", 0, 0, kMostOfGateway));
    t.gap_sum = g.number("sum", 0, 0, 1e300);
    t.gap_squares = g.number("sum2", 0, 0, 1e300);
  }
  return f.finish(t);
}

// Returns the function's instances, by id; adds those that have an overdue request.
std::vector<ObservedAnswers> answers_from(const json& function,
                                          std::map<InstanceId, Nanos>& overdue) {
  Fields f(function, "traffic");
  std::vector<ObservedAnswers> out;
  for (const json& item : items(f, "instances")) {
    Fields i(item, "instance");
    const auto number = [&](const char* key) {
      return i.integer(key, 0, 0, kMostOfGateway / 1000);
    };
    ObservedAnswers& a = out.emplace_back();
    a.instance = i.text("id");
    a.in_flight = static_cast<int>(i.integer("in_flight", 0, 0, 1'000'000'000));
    a.answered = static_cast<uint64_t>(number("answered"));
    a.inferences = static_cast<uint64_t>(number("inferences"));
    a.late = static_cast<uint64_t>(number("late"));
    a.slow = static_cast<uint64_t>(number("slow"));
    a.spread = spread_from(i);
    a.answering = Micros(number("busy_us"));
    const Micros since(number("overdue_us"));
    if (since > Micros(0)) overdue[a.instance] = since;
  }
  std::ranges::sort(out, {}, &ObservedAnswers::instance);
  return out;
}

}  // namespace

std::set<InstanceId> busy_from(const json& answer) {
  Fields f(answer, "answer");
  std::set<InstanceId> busy;
  for (const json& id : f.list("busy"))
    if (id.is_string()) busy.insert(id.get<std::string>());
  return busy;
}

void take_stats(const json& stats, ObservedGateway& g) {
  Fields f(stats, "stats");
  g.there = true;
  g.started = f.integer("started", 0, 0, kMostOfGateway);
  g.routes_version = f.integer("version", 0, 0, kMostOfGateway);
  g.busy = busy_from(stats);
  for (const json& item : items(f, "functions")) {
    std::vector<ObservedAnswers> answers = answers_from(item, g.overdue);
    auto traffic = traffic_from(item);
    if (traffic.ok()) {
      traffic->instances = std::move(answers);
      g.traffic.push_back(std::move(*traffic));
    } else {
      log::warn("gateway: {}", traffic.error().message);
    }
  }
}

}  // namespace sluice::control
