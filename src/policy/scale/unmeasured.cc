#include "policy/scale/unmeasured.h"

#include <algorithm>

namespace sluice::policy {
namespace {

// As the gateway's credit.
int places_of(const Demand& demand, const Instance& i) {
  const int stated = demand.inference().container_concurrency;
  return std::max(stated > 0 ? stated : i.batch, 1);
}

// Where instances of one device borrow from each other, they are full before they reach the limit,
// and then their requests take longer, so that their places are full.
double use_of(const InstanceMeasurements& m, const Instance& i, int places) {
  const double held = m.inferences_per_second * seconds(m.latency) / places;
  const double limit = std::max(0.001, i.slice().quota.limit.fraction());
  return std::min(1.0, std::max(held, m.busy.fraction() / limit));
}

std::string behind_text(const Demand& demand, int places) {
  const FunctionView& view = *demand.view;
  const Nanos objective = demand.inference().slo.latency;
  if (view.violating)
    return objective > Nanos(0)
               ? "More requests are late, refused or failed than the objective of " +
                     milliseconds(objective) + " allows"
               : "Too many requests are refused or fail";
  if (view.queued * demand.part <= places) return "";
  return counted(view.queued, "request") + " wait, and the instances have " +
         counted(places, "place");
}

}  // namespace

std::string Pace::does_text() const {
  if (each <= 0) return "no instance answered in the last " + seconds_text(kMeasuredOver);
  return counted(count, "instance") + (count == 1 ? " does about " : " do about ") +
         per_second(capacity());
}

Numbers Pace::numbers(const Demand& demand) const {
  return nonzero({{"forecast", demand.rate()},
                  {"waiting", demand.view->queued * demand.part},
                  {"capacity", capacity()}});
}

Pace pace_of(const ClusterPlan& plan, const Demand& demand) {
  Pace pace;
  int places = 0;
  double answered = 0, used = 0;
  for (const size_t i : plan.serving(demand)) {
    const Instance& instance = plan.at(i).instance;
    const bool ready = instance.state == InstanceState::kReady;
    const int own = places_of(demand, instance);
    if (!plan.on_drained(i)) {
      ++pace.count;
      pace.ready += ready;
      pace.last_start = std::max(pace.last_start, instance.started);
    }
    if (ready) places += own;
    const auto* m = measurements_of(plan.input().snapshot, instance.id);
    if (m == nullptr || m->inferences_per_second <= 0) continue;
    answered += m->inferences_per_second;
    used += use_of(*m, instance, own);
  }
  if (used > 0) pace.each = answered / used;
  if (places > 0) pace.behind = behind_text(demand, places);
  return pace;
}

void report_unmeasured(ClusterPlan& plan, const Demand& demand) {
  const Pace pace = pace_of(plan, demand);
  if (pace.behind.empty() || !pace.settled()) return;
  plan.unmet(demand, 0,
             {"never-measured",
              pace.behind + "; " + per_second(demand.rate()) + " expected, " + pace.does_text() +
                  ". The policy scales by measured times, and these never were: sluice profile "
                  "makes the function scale.",
              pace.numbers(demand)});
}

}  // namespace sluice::policy
