#include "control/gateway_sum.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sluice::control {
namespace {

void add(ObservedTraffic& sum, const ObservedTraffic& now, const ObservedTraffic& before) {
  for (const auto counter :
       {&ObservedTraffic::requests, &ObservedTraffic::ok, &ObservedTraffic::invalid,
        &ObservedTraffic::shed, &ObservedTraffic::failed, &ObservedTraffic::timed_out,
        &ObservedTraffic::gone, &ObservedTraffic::late, &ObservedTraffic::cold_starts,
        &ObservedTraffic::retried, &ObservedTraffic::repeated, &ObservedTraffic::inferences,
        &ObservedTraffic::gaps})
    sum.*counter += now.*counter - before.*counter;
  for (const auto figure : {&ObservedTraffic::concurrency_seconds, &ObservedTraffic::gap_sum,
                            &ObservedTraffic::gap_squares})
    sum.*figure += now.*figure - before.*figure;
  sum.latency += now.latency.since(before.latency);
}

void add(std::shared_ptr<const AnswerSpread>& sum,
         const std::shared_ptr<const AnswerSpread>& more) {
  if (more == nullptr) return;
  if (sum == nullptr) {
    sum = more;
    return;
  }
  auto both = std::make_shared<AnswerSpread>(*sum);
  both->latency += more->latency;
  both->body_bytes += more->body_bytes;
  sum = std::move(both);
}

// Both are sorted by instance.
void add(std::vector<ObservedAnswers>& sum, const std::vector<ObservedAnswers>& more) {
  for (const ObservedAnswers& a : more) {
    auto at = std::ranges::lower_bound(sum, a.instance, {}, &ObservedAnswers::instance);
    if (at == sum.end() || at->instance != a.instance)
      at = sum.insert(at, {.instance = a.instance});
    at->in_flight += a.in_flight;
    at->answered += a.answered;
    at->inferences += a.inferences;
    at->late += a.late;
    at->slow += a.slow;
    at->answering += a.answering;
    add(at->spread, a.spread);
  }
}

}  // namespace

void GatewaySum::observe(ObservedGateway& gateway) {
  if (!gateway.there) return;
  Gateway& g = gateways_[gateway.name];
  if (g.started != gateway.started) g = {.started = gateway.started, .now = {}, .taken = {}};
  for (ObservedTraffic& t : gateway.traffic) {
    const FunctionName f = t.function;
    g.now[f] = std::move(t);
  }
  gateway.traffic.clear();
}

std::optional<ObservedTraffic> GatewaySum::take(const FunctionName& f,
                                                const ObservedTraffic& before) {
  std::optional<ObservedTraffic> sum;
  int queued = 0, in_flight = 0;
  std::vector<ObservedAnswers> answers;
  for (auto& [name, g] : gateways_) {
    const auto now = g.now.find(f);
    if (now != g.now.end()) {
      if (!sum) sum = before;
      sum->function = f;
      const ObservedTraffic none{.function = f};
      ObservedTraffic& taken =
          g.taken.try_emplace(f, g.from_zero ? none : now->second).first->second;
      add(*sum, now->second, taken);
      taken = std::move(now->second);
      g.now.erase(now);
    }
    if (const auto taken = g.taken.find(f); taken != g.taken.end()) {
      queued += taken->second.queued;
      in_flight += taken->second.in_flight;
      add(answers, taken->second.instances);
    }
  }
  if (!sum) return sum;
  sum->queued = queued;
  sum->in_flight = in_flight;
  sum->instances = std::move(answers);
  return sum;
}

std::map<std::string, UnixMillis> GatewaySum::started() const {
  std::map<std::string, UnixMillis> started;
  for (const auto& [name, g] : gateways_) started[name] = g.started;
  return started;
}

void GatewaySum::restore(const std::map<std::string, UnixMillis>& started) {
  for (const auto& [name, at] : started)
    gateways_[name] = {.started = at, .from_zero = false, .now = {}, .taken = {}};
}

}  // namespace sluice::control
