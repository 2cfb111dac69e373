// SMIF's traffic manager (§4.5). Instances of one capability are a group, the weakest group first.
// The requests' sizes, each with its part of the recent work, lie on a line from small to large;
// the groups, each with its part of the summed service rate μ, on a line beside it. A request goes
// to a group that lies beside its size, so that
//
//   μ₁ ÷ λ₁ = μ₂ ÷ λ₂ = …, with λ in inferences, and large requests go to strong devices.
//
// A sluggish instance, whose answers are late while another keeps the objective, counts with less
// than its service rate. It recovers as its answers are in time again.
//
// Requests of one size lie beside all groups. Among the instances beside it, smooth weighted round
// robin: each earns its part, the richest is chosen and pays what all earned.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "routing/route.h"

namespace sluice::policy {
namespace {

// The work of requests of a size, by powers of two: by inferences, or, where a request does not say
// how many, by its body's bytes. The two scales are not comparable, so each is a line of its own.
constexpr size_t kSizes = 32;

struct RequestSize {
  size_t scale = 0, at = 0;
  double work = 1;
};

RequestSize request_size(const RequestView& r) {
  constexpr double kMost = 1 << 20;
  if (r.inferences > 0)
    return {0,
            std::min(kSizes - 1,
                     static_cast<size_t>(std::bit_width(static_cast<unsigned>(r.inferences)))),
            std::min(static_cast<double>(r.inferences), kMost)};
  return {kSizes, std::min(kSizes - 1, static_cast<size_t>(r.size_class())),
          std::max(1.0, static_cast<double>(r.body_bytes))};
}

struct WorkInterval {
  double from = 0, to = 1;
};

// Counts the request. Returns where its size lies among the recent requests' work. Recent are about
// the last thousand, of about the last ten seconds: large requests are few a second, and a change
// of sizes must not send all of them to one device for long. `work`: by size, then the time.
WorkInterval place_among(const RequestSize& size, std::vector<double>& work, Time now) {
  constexpr double kKept = 1 - 1.0 / 1024, kRecent = 10;
  work.resize(2 * kSizes + 1);
  const double at = seconds(now.time_since_epoch());
  const double passed = std::max(0.0, at - std::exchange(work.back(), at));
  const double kept = kKept * std::exp(-passed / kRecent);
  double all = 0, smaller = 0;
  for (size_t i = 0; i < 2 * kSizes; ++i) {
    work[i] *= kept;
    if (i < size.scale || i >= size.scale + kSizes) continue;
    if (i == size.scale + size.at) {
      work[i] += size.work;
      smaller = all;
    }
    all += work[i];
  }
  constexpr double kLeast = 1e-9;  // of a line; above what sums of fractions err by
  const double from = std::min(smaller / all, 1 - kLeast);
  return {from, std::max((smaller + work[size.scale + size.at]) / all, from + kLeast)};
}

// The instances that may be chosen, with their service rates.
class RatedInstances {
 public:
  RatedInstances(const RequestView& request, std::span<const InstanceView> instances)
      : revision_(request.revision), instances_(instances) {
    double measured = 0;
    int count = 0;
    for (const InstanceView& i : instances_) {
      if (i.revision != revision_ || i.service_rate <= 0) continue;
      measured += i.service_rate;
      ++count;
    }
    if (count > 0) unknown_ = measured / count;
    some_in_time_ = std::ranges::any_of(instances_, [&](const InstanceView& i) {
      return has(i) && i.service_rate > 0 && in_time(i);
    });
    for (const InstanceView& i : instances_)
      if (has(i)) all_ += rate(i);
  }
  bool has(const InstanceView& i) const { return i.revision == revision_ && i.credit > 0; }
  // Not measured: as predicted; else like the others. Sluggish: less.
  double rate(const InstanceView& i) const {
    constexpr double kLeast = 1e-3, kMost = 1e6;
    const double rate = i.service_rate > 0 ? i.service_rate
                        : i.capability > 0 ? i.capability
                                           : unknown_;
    return std::clamp(rate * promptness(i), kLeast, kMost);
  }
  double all() const { return all_; }
  // Returns the least capability above that one, infinity if there is none.
  double next_stronger(double than) const {
    double next = std::numeric_limits<double>::infinity();
    for (const InstanceView& i : instances_)
      if (has(i) && i.capability > than) next = std::min(next, i.capability);
    return next;
  }
  double rate_of_group(double capability) const {
    double sum = 0;
    for (const InstanceView& i : instances_)
      if (has(i) && i.capability == capability) sum += rate(i);
    return sum;
  }

 private:
  static bool in_time(const InstanceView& i) { return i.late <= 0.05; }
  // Returns the part of its rate that it counts with. If all are late, the load is to blame. The
  // least part is not zero, so that its answers show when it is in time again.
  double promptness(const InstanceView& i) const {
    constexpr double kLeast = 1.0 / 8;
    return some_in_time_ && !in_time(i) ? std::max(kLeast, 1 - i.late) : 1;
  }

  int revision_;
  std::span<const InstanceView> instances_;
  bool some_in_time_ = false;  // of those that may be chosen and are measured
  double all_ = 0, unknown_ = 1;
};

}  // namespace

std::optional<size_t> route_service_rate(const RequestView& request,
                                         std::span<const InstanceView> instances, RouteState& state,
                                         Time now) {
  const RatedInstances rated(request, instances);
  if (rated.all() <= 0) return std::nullopt;
  const RequestSize size = request_size(request);
  const WorkInterval beside = place_among(size, state.function, now);
  const double each = size.scale == 0 ? size.work : 1;
  const double negligible = 1e-6 * (beside.to - beside.from) * rated.all();
  std::optional<size_t> best;
  int64_t earned = 0;
  double from = 0;
  for (double strength = rated.next_stronger(-1); std::isfinite(strength);
       strength = rated.next_stronger(strength)) {
    const double group = rated.rate_of_group(strength), to = from + group;
    const double shared =
        std::min(to, beside.to * rated.all()) - std::max(from, beside.from * rated.all());
    from = to;
    if (shared <= negligible) continue;
    for (size_t i = 0; i < instances.size(); ++i) {
      if (!rated.has(instances[i]) || instances[i].capability != strength) continue;
      // In thousandths, so that sums are exact.
      const double part = rated.rate(instances[i]) * shared / group;
      const int64_t earns = std::max<int64_t>(1, std::llround(part * each * 1000));
      state.instances[i] += earns;
      earned += earns;
      if (!best || state.instances[i] > state.instances[*best]) best = i;
    }
  }
  if (best) state.instances[*best] -= earned;
  return best;
}

}  // namespace sluice::policy
