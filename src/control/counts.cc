#include "control/counts.h"

#include <algorithm>
#include <utility>

namespace sluice::control {
namespace {

constexpr Nanos kLeast = Millis(200);    // between two counts
constexpr Nanos kEarly = Millis(100);    // a tick may come before its time
constexpr Nanos kAwayFor = Seconds(10);  // of a gateway; then the others are counted without it
constexpr Nanos kDeletedFor = Seconds(60);
constexpr size_t kMostRates = 100'000;  // kept while the disk is full

// Called after its traffic was stepped; `changes` of it before.
void counted(FunctionState& f, uint64_t arrived, uint64_t changes, Nanos elapsed, Time now,
             UnixMillis wall) {
  const Nanos to = Millis(wall);
  f.arrivals->add(std::max(Nanos(0), to - elapsed), to, arrived);
  // A new loop does not know of earlier requests.
  if (f.traffic.changes() != changes || f.last_request == Time{}) f.last_request = now;
}

}  // namespace

void Counts::observe(std::vector<ObservedGateway>& gateways) {
  if (gateways.size() > 1 && !sum_) {
    sum_.emplace();
    if (gateway_started_ > 0) sum_->restore({{gateway_, gateway_started_}});
  }
  for (ObservedGateway& g : gateways) {
    if (sum_)
      sum_->observe(g);
    else
      keep(std::move(g.traffic));
    g.traffic.clear();
  }
}

// Usually the last observation has been counted: then nothing is copied.
void Counts::keep(std::vector<ObservedTraffic>&& traffic) {
  if (!std::ranges::is_sorted(traffic, {}, &ObservedTraffic::function))
    std::ranges::sort(traffic, {}, &ObservedTraffic::function);
  if (uncounted_.empty()) {
    uncounted_ = std::move(traffic);
    return;
  }
  const auto known = static_cast<std::ptrdiff_t>(uncounted_.size());
  const auto before = [](const ObservedTraffic& a, const ObservedTraffic& b) {
    return a.function < b.function;
  };
  for (ObservedTraffic& t : traffic) {
    const auto end = uncounted_.begin() + known;
    const auto at = std::lower_bound(uncounted_.begin(), end, t, before);
    if (at != end && at->function == t.function)
      *at = std::move(t);
    else
      uncounted_.push_back(std::move(t));
  }
  std::inplace_merge(uncounted_.begin(), uncounted_.begin() + known, uncounted_.end(), before);
}

void Counts::forget(const FunctionName& f, const ObservedTraffic& last, Time now) {
  std::erase_if(deleted_, [&](const auto& d) { return now - d.second.at >= kDeletedFor; });
  deleted_[f] = {last, now};
}

// Returns the time since then, and sets it to now; nothing if that is less than `least`. The first
// after a restart is the time since the earlier loop's mark in the journal.
std::optional<Nanos> Counts::since(Done& last, Nanos least, Time now, UnixMillis wall) {
  const bool first = last.at == Time{};
  Nanos elapsed = now - last.at;
  if (first) elapsed = last.wall <= 0 || last.wall > wall ? Nanos(0) : Millis(wall - last.wall);
  if (!first && elapsed < least) return std::nullopt;
  last = {now, wall};
  if (elapsed <= Nanos(0)) return std::nullopt;
  return elapsed;
}

void Counts::count(const Observation& seen, Functions& functions, Time now, UnixMillis wall) {
  if (all_gateways_there(seen)) all_there_ = now;
  countable_ = std::ranges::any_of(seen.gateways, &ObservedGateway::there) &&
               (all_there_ == now || now - all_there_ >= kAwayFor);
  if (!countable_) return;
  for (const ObservedGateway& g : seen.gateways)
    if (sum_ && !g.there) sum_->leave_out(g.name);
  const std::optional<Nanos> elapsed = since(counted_, kLeast, now, wall);
  if (!elapsed) return;
  if (sum_)
    count_several(functions, *elapsed, now, wall);
  else
    count_one(seen.gateways.front(), functions, *elapsed, now, wall);
}

void Counts::count_one(const ObservedGateway& gateway, Functions& functions, Nanos elapsed,
                       Time now, UnixMillis wall) {
  const bool restarted = gateway.started != gateway_started_;
  gateway_started_ = gateway.started;
  gateway_ = gateway.name;
  auto t = uncounted_.begin();
  for (auto& [name, f] : functions) {
    if (restarted) {
      f.traffic.restart();
      f.answers.clear();
    }
    if (const auto earlier = deleted_.find(name); earlier != deleted_.end()) {
      if (!restarted && now - earlier->second.at < kDeletedFor)
        f.traffic.restore({}, earlier->second.last);
      deleted_.erase(earlier);
    }
    const uint64_t before = f.traffic.changes();
    while (t != uncounted_.end() && t->function < name) ++t;  // both are sorted by name
    uint64_t arrived = 0;
    if (t != uncounted_.end() && t->function == name) {
      f.answers = std::move(t->instances);
      arrived = f.traffic.step(*t, elapsed, restarted);
    } else {
      f.traffic.rest(elapsed);
    }
    counted(f, arrived, before, elapsed, now, wall);
  }
  uncounted_.clear();
}

void Counts::count_several(Functions& functions, Nanos elapsed, Time now, UnixMillis wall) {
  for (auto& [name, f] : functions) {
    const uint64_t before = f.traffic.changes();
    uint64_t arrived = 0;
    if (auto sum = sum_->take(name, f.traffic.last())) {
      f.answers = std::move(sum->instances);
      arrived = f.traffic.step(*sum, elapsed, false);
    } else {
      f.traffic.rest(elapsed);
    }
    counted(f, arrived, before, elapsed, now, wall);
  }
}

bool Counts::account(const Observation& seen, Functions& functions, Accounting& accounting,
                     Time now, UnixMillis wall) {
  const std::optional<Nanos> elapsed = since(accounted_, account_every_ - kEarly, now, wall);
  if (!elapsed) return false;
  if (any_node_there(seen)) accounting.step(seen.instances, seen.devices, *elapsed);
  if (!countable_) return true;
  for (auto& [name, f] : functions) {
    f.latency = f.traffic.latencies();
    const auto [requests, violations] = f.traffic.take();
    const int queued = f.traffic.queued(), in_flight = f.traffic.in_flight();
    if (requests == 0 && violations == 0 && queued == 0 && in_flight == 0) continue;
    rates_.push_back({name, wall / 1000, static_cast<double>(requests) / seconds(*elapsed), queued,
                      in_flight, violations});
  }
  return true;
}

void Counts::written() {
  rates_.clear();
}

void Counts::not_written() {
  if (rates_.size() > kMostRates) rates_.clear();
}

nlohmann::json Counts::to_json() const {
  nlohmann::json j = {{"gateway_started", gateway_started_},
                      {"gateway", gateway_},
                      {"counted", counted_.wall},
                      {"accounted", accounted_.wall}};
  if (sum_) j["gateways"] = sum_->started();
  return j;
}

void Counts::restore(const nlohmann::json& j) {
  gateway_started_ = j.value("gateway_started", UnixMillis{0});
  gateway_ = j.value("gateway", "");
  if (j.contains("gateways"))
    sum_.emplace().restore(j["gateways"].get<std::map<std::string, UnixMillis>>());
  counted_.wall = j.value("counted", UnixMillis{0});
  accounted_.wall = j.value("accounted", counted_.wall);
}

}  // namespace sluice::control
