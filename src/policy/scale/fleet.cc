#include "policy/scale/fleet.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace sluice::policy {

Fleet::Fleet(ClusterPlan& plan, const Demand& demand)
    : Fleet(plan, demand, [&](const Instance& i, const Device& device) {
        return plan.predictor().throughput(model_on(i.function, i.revision, device),
                                           {i.batch, i.slice().sm, i.slice().quota.request});
      }) {}

Fleet::Fleet(ClusterPlan& plan, const Demand& demand, const Rate& rate)
    : plan_(plan), demand_(demand) {
  for (const size_t i : plan.counted(demand)) {
    const Instance& instance = plan.at(i).instance;
    const Device& device = plan.device(plan.at(i));
    members_.push_back({i, &plan.type_of(device), instance.slice().sm, rate(instance, device)});
  }
}

double Fleet::sum() const {
  double sum = 0;
  for (const Member& m : members_) sum += m.rate;
  return sum;
}

double Fleet::capacity() const {
  const bool known = std::ranges::all_of(members_, [](const Member& m) { return m.rate > 0; });
  return known ? sum() : std::numeric_limits<double>::infinity();
}

Fleet::Ready Fleet::ready() const {
  Ready all;
  for (const Member& m : members_) {
    if (!is_ready(m)) continue;
    ++all.count;
    all.sum += m.rate;
    all.known &= m.rate > 0;
  }
  return all;
}

std::optional<Spot> Fleet::place(const Choice& choice, Full& full) const {
  const std::vector<Spot> spots = full.place(
      plan_.layouts(), {demand_.view, choice.sm, {kWhole, kWhole}, choice.memory, 1, choice.type});
  return spots.empty() ? std::nullopt : std::optional(spots.front());
}

void Fleet::start(const Choice& choice, const Spot& spot, Reason reason) {
  plan_.start(demand_, spot, {kWhole, kWhole}, choice.memory, choice.batch, std::move(reason));
  members_.push_back({plan_.serving(demand_).back(), choice.type, choice.sm, choice.rate});
  started_ = true;
}

void Fleet::leave_cordoned(const Numbers& numbers) {
  for (const size_t i : plan_.cordoned(demand_))
    plan_.stop(i, {"replaced",
                   "Device " + plan_.at(i).instance.device() +
                       " is cordoned. Others are ready in its place.",
                   numbers});
}

void Fleet::stop_all(const Reason& reason) {
  for (const size_t i : plan_.serving(demand_)) plan_.stop(i, reason);
}

void Fleet::report_most(double missing, double part, Numbers numbers) {
  plan_.unmet(
      demand_, missing,
      {"max-replicas",
       load_text(part) + " maxReplicas allows " + std::to_string(most_replicas(demand_)) + ".",
       std::move(numbers)});
}

std::string Fleet::load_text(double part) const {
  const std::string load = per_second(demand_.rate());
  if (members_.empty()) return load + " and no instance.";
  const double all = capacity();
  return load + "; " +
         (std::isfinite(all) ? carries_text(all, part) : "what an instance carries is not known.");
}

Numbers Fleet::numbers(const Numbers& more) const {
  const double all = capacity();
  Numbers numbers{{"rate", demand_.rate()}, {"capacity", std::isfinite(all) ? all : 0}};
  std::ranges::copy(more, std::back_inserter(numbers));
  return nonzero(std::move(numbers));
}

std::string carries_text(double rate, double part) {
  return per_second(rate) + " at " + percent(part) + " carry " + per_second(rate * part) + ".";
}

Choice unsized_choice(const ClusterPlan& plan, const Demand& demand, const Device& type,
                      bool known) {
  const Share stated = demand.spec->slice ? demand.spec->slice->sm : kWhole;
  const Share sm = std::min(round_up(stated, type.sm_quantum), kWhole);
  const int batch = known ? 1 : most_at_once(*demand.spec, type_of(type));
  const ModelOnDevice model = model_on(demand.function(), demand.revision, type);
  return {&type, sm, batch, plan.predictor().throughput(model, {batch, sm, kWhole})};
}

}  // namespace sluice::policy
