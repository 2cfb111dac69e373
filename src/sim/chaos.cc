#include "sim/chaos.h"

#include <algorithm>
#include <cstdio>

#include "base/random.h"
#include "model/quantity.h"
#include "policy/bundle.h"
#include "sim/run.h"

namespace sluice::sim {
namespace {

constexpr Bytes kGib = Bytes{1} << 30;

std::string numbered(const std::string& name, size_t number) {
  return name + std::to_string(number);
}

// One entry of a list, with equal chances.
template <class T>
const T& one_of(Random& random, const std::vector<T>& list) {
  return list[random.below(list.size())];
}

void add_devices(Scenario& s, Random& random) {
  const auto types = random.between(1, 3);
  for (int64_t t = 0; t < types; ++t) {
    const std::string type = numbered("type", static_cast<size_t>(t));
    const auto count = random.between(1, 4), per_node = random.between(1, 2);
    const Bytes memory = random.between(2, 16) * kGib;
    const Share quantum{one_of(random, std::vector<int>{10, 50, 250, 1000})};
    for (int64_t d = 0; d < count; ++d) {
      const std::string node = type + "-n" + std::to_string(d / per_node);
      s.cluster.devices.push_back({.device = {.id = node + "/" + std::to_string(d % per_node),
                                              .node = node,
                                              .model = type,
                                              .memory = memory,
                                              .sm_quantum = quantum,
                                              .price_per_hour = random.uniform() * 4},
                                   .physics = {}});
    }
  }
  std::ranges::sort(s.cluster.devices, {}, [](const DevicePlan& d) { return d.device.id; });
  for (int64_t n = random.between(1, 4); n > 0; --n)
    s.cluster.cold_starts.push_back(Millis(random.between(100, 12'000)));
  s.cluster.hop = Micros(random.between(0, 2000));
}

// A model whose speed saturates at some share of the SMs.
control::Profile profile_of(const std::string& model, const DeviceType& type, Nanos one,
                            int most_batch, Random& random) {
  const double saturates = 0.2 + 0.8 * random.uniform(), speed = 0.5 + random.uniform();
  control::Profile p{.model = model, .device = type, .memory = random.between(1, 2'000) << 20};
  for (int batch = 1; batch <= most_batch; batch *= 2)
    for (const int sm : {50, 100, 250, 500, 1000}) {
      const double part = std::min(1.0, sm / 1000.0 / saturates);
      const double takes = seconds(one) * (0.4 + 0.6 * batch) / (part * speed);
      const Nanos median = std::chrono::round<Micros>(from_seconds(takes));
      p.points.push_back({{batch, {sm}, kWhole}, median, median, batch / seconds(median)});
    }
  return p;
}

void add_function(Scenario& s, size_t number, Random& random) {
  FunctionSpec spec{.name = {.name = numbered("f", number)}};
  InferenceSpec& inference = spec.inference();
  inference.model.path = spec.name.name + ".pt";
  const Nanos one = Micros(random.between(500, 60'000));
  inference.slo.latency = one * random.between(2, 20);
  inference.batching.max_size = 1 << random.between(0, 3);
  inference.min_replicas = static_cast<int>(random.between(0, 2));
  if (random.chance(0.5)) inference.max_replicas = static_cast<int>(random.between(2, 8));
  inference.scale_to_zero_after = Seconds(random.between(1, 60));
  inference.timeout = Seconds(random.between(1, 20));
  spec.priority = static_cast<int>(random.between(0, 2));
  if (s.policies.front() == "fixed" || random.chance(0.2))
    spec.slice =
        Slice{.sm = kWhole, .quota = {{300}, {static_cast<int>(random.between(300, 1000))}}};
  std::vector<std::string> types;
  for (const DevicePlan& d : s.cluster.devices) {
    if (std::ranges::count(types, d.device.model) > 0) continue;
    types.push_back(d.device.model);
    s.profiles.push_back(profile_of(inference.model.path, type_of(d.device), one,
                                    inference.batching.max_size, random));
  }
  Load load{.function = spec.name};
  const double whole = 1 / seconds(one);  // what a device about answers
  for (Nanos at{0}; at < s.duration;) {
    const Nanos lasts = Seconds(random.between(1, 30));
    const double rate = random.chance(0.2) ? 0 : std::min(400.0, whole * 2 * random.uniform());
    load.plan.push_back({lasts, rate});
    at += lasts;
  }
  load.gaps = {.kind = Gaps::Kind::kGamma, .cv = 0.3 + 3 * random.uniform()};
  s.functions.push_back(std::move(spec));
  s.loads.push_back(std::move(load));
}

std::string subject_of(const FaultKind& kind, const Scenario& s, Random& random) {
  using Subject = FaultKind::Subject;
  const Device& device = one_of(random, s.cluster.devices).device;
  switch (kind.subject) {
    case Subject::kFunction:
      return one_of(random, s.functions).name.name;
    case Subject::kDevice:
      return device.id;
    case Subject::kNodeOrGateway:
      return random.chance(0.3) ? std::string(kGateway) : device.node;
    case Subject::kNode:
      return device.node;
    case Subject::kGateway:
      return std::string(kGateway);
    case Subject::kDirection:
      return random.chance(0.5) ? "forward" : "back";
  }
  return {};
}

void add_fault(Scenario& s, Random& random) {
  const FaultKind& kind = fault_kinds()[random.below(fault_kinds().size())];
  Fault f{.at = Millis(random.between(0, s.duration / Millis(1))), .kind = kind.kind};
  f.subject = subject_of(kind, s, random);
  using Lasts = FaultKind::Lasts;
  if (kind.lasts == Lasts::kMust || (kind.lasts == Lasts::kMay && random.chance(0.5)))
    f.lasts = Millis(random.between(100, 30'000));
  if (kind.kind == Fault::Kind::kJumpClock)
    f.by = Seconds(1 << random.between(0, 20));  // up to twelve days
  else if (kind.by)
    f.by = Millis(random.between(10, 15'000));
  if (kind.times) f.times = 0.3 + 5 * random.uniform();
  s.faults.push_back(std::move(f));
}

// Returns the scenario without one entry of a list, if that breaks too.
template <class T>
bool drop_one(Scenario& s, std::vector<T> Scenario::*list) {
  for (size_t i = 0; i < (s.*list).size(); ++i) {
    Scenario less = s;
    (less.*list).erase((less.*list).begin() + static_cast<std::ptrdiff_t>(i));
    if (!broken(less)) continue;
    s = std::move(less);
    return true;
  }
  return false;
}

bool drop_function(Scenario& s) {
  for (size_t i = 0; s.functions.size() > 1 && i < s.functions.size(); ++i) {
    Scenario less = s;
    const FunctionName name = less.functions[i].name;
    less.functions.erase(less.functions.begin() + static_cast<std::ptrdiff_t>(i));
    std::erase_if(less.loads, [&](const Load& l) { return l.function == name; });
    std::erase_if(less.faults, [&](const Fault& f) { return f.subject == name.name; });
    if (!broken(less)) continue;
    s = std::move(less);
    return true;
  }
  return false;
}

bool halve(Scenario& s) {
  if (s.duration <= Seconds(1)) return false;
  Scenario less = s;
  less.duration = s.duration / 2;
  std::erase_if(less.faults, [&](const Fault& f) { return f.at > less.duration; });
  if (!broken(less)) return false;
  s = std::move(less);
  return true;
}

}  // namespace

Scenario random_scenario(uint64_t seed) {
  Random random(seed);
  Scenario s{.name = numbered("chaos", seed), .seed = seed};
  s.duration = Seconds(random.between(30, 120));
  std::vector<std::string> bundles;
  for (const policy::Bundle& b : policy::bundles()) bundles.emplace_back(b.name);
  s.policies = {one_of(random, bundles)};
  add_devices(s, random);
  const auto functions = static_cast<size_t>(random.between(1, 5));
  for (size_t f = 0; f < functions; ++f) add_function(s, f, random);
  for (const FunctionSpec& spec : s.functions)
    s.cluster.truths[spec.name] = {.slowness = 0.7 + random.uniform(),
                                   .variation = 0.3 * random.uniform()};
  for (int64_t n = random.between(0, 8); n > 0; --n) add_fault(s, random);
  s.cluster.stepping = random.chance(0.5) ? Stepping::kFluid : Stepping::kExact;
  return s;
}

std::optional<std::string> broken(const Scenario& scenario) {
  const auto outcome = simulate(scenario, scenario.policies.front());
  return outcome.ok() ? std::nullopt : std::optional(outcome.error().message);
}

Scenario shrunk(Scenario scenario) {
  while (halve(scenario) || drop_function(scenario) || drop_one(scenario, &Scenario::faults) ||
         drop_one(scenario, &Scenario::loads)) {
  }
  return scenario;
}

std::string summary_of(const Scenario& s) {
  std::string text = s.name + ": " + s.policies.front() + ", " +
                     std::to_string(s.duration / Seconds(1)) + " s, " +
                     std::to_string(s.cluster.devices.size()) + " devices, " +
                     std::string(to_string(s.cluster.stepping)) + "\n";
  for (const FunctionSpec& f : s.functions)
    text += "  function " + f.name.name + ", objective " +
            format_duration(f.inference().slo.latency) + "\n";
  for (const Load& l : s.loads)
    text += "  load of " + l.function.name + ", " + std::to_string(l.plan.size()) + " steps\n";
  for (const Fault& f : s.faults) {
    const FaultKind& kind = fault_kinds()[static_cast<size_t>(f.kind)];
    text += "  at " + format_duration(f.at) + " " + std::string(kind.key) + " " + f.subject;
    if (f.lasts > Nanos(0)) text += ", lasts " + format_duration(f.lasts);
    if (kind.by) text += ", by " + format_duration(f.by);
    if (kind.times) text += ", times " + std::to_string(f.times);
    text += "\n";
  }
  return text;
}

}  // namespace sluice::sim
