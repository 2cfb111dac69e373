#include "policy/scale/scale_dilu.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "policy/explain.h"
#include "policy/scale/cluster_plan.h"
#include "policy/scale/growth_search.h"
#include "policy/scale/replicas.h"
#include "policy/scale/unmeasured.h"

namespace sluice::policy {
namespace {

// What an instance is to hold.
struct Sized {
  Slice slice;
  int batch = 0;
  bool known = false;  // by profiling
  std::string note;    // for the reasons
};

Configuration point(const DiluSettings& config, int batch, Share share) {
  return config.sm_profile ? Configuration{batch, share, kWhole}
                           : Configuration{batch, kWhole, share};
}

// The star on one type; within the whole objective where none is in time. Nothing: never measured.
std::optional<Star> star_on(const Device& type, const Demand& d, const Predictor& predictor) {
  const auto& config = d.settings->as<DiluSettings>();
  const ModelOnDevice model = model_on(d.function(), d.revision, type);
  const auto time = [&](int batch, Share share) -> std::optional<Nanos> {
    const auto p = predictor.predict(model, point(config, batch, share));
    return p ? std::optional(cautious(*p)) : std::nullopt;
  };
  const std::optional<Nanos> fastest = time(1, kWhole);
  if (!fastest) return std::nullopt;
  GrowthBounds bounds{.largest_batch = most_at_once(*d.spec, type_of(type)),
                      .step = config.share_step,
                      .limit_factor = config.limit_factor};
  const Nanos slo = d.inference().slo.latency;
  if (slo > Nanos(0)) {
    bounds.in_time = from_seconds(seconds(slo) * config.slo_fraction);
    if (*fastest > bounds.in_time) bounds.in_time = slo;
  }
  if (const auto star = growth_search(bounds, time)) return star;
  return Star{1, {kWhole, kWhole}, *fastest, 0};
}

std::optional<Star> slowest_star(const ClusterPlan& plan, const Demand& d) {
  std::optional<Star> slowest;
  double least = 0;
  for (const Device* type : plan.types()) {
    const auto star = star_on(*type, d, plan.predictor());
    if (!star) continue;
    const double efficacy = star->batch / (seconds(star->time) * star->quota.request.fraction());
    if (!slowest || efficacy < least) slowest = star, least = efficacy;
  }
  return slowest;
}

Sized sized(const ClusterPlan& plan, const Demand& d) {
  const auto& config = d.settings->as<DiluSettings>();
  Sized all{.slice = stated_slice(plan, d),
            .note = "The model was never measured (sluice profile), so the load decides nothing."};
  if (const auto star = slowest_star(plan, d)) {
    all.slice.sm = kWhole;
    all.slice.quota = star->quota;
    all.batch = star->batch;
    all.known = true;
    all.note = config.sm_profile ? " The profile's shares are of SMs, read as elastic." : "";
  }
  if (config.tolerance > 0 && d.inference().slo.latency > Nanos(0)) {
    all.slice.slo = d.inference().slo.latency;
    all.slice.tolerance = std::max(1200, static_cast<int>(std::lround(1000 * config.tolerance)));
  }
  return all;
}

// The throughput of an instance's request.
double throughput_of(const Instance& i, const Device& device, const Demand& d,
                     const Predictor& predictor) {
  Configuration at = point(d.settings->as<DiluSettings>(), i.batch, i.slice().quota.request);
  at.sm = std::min(at.sm, i.slice().sm);
  return predictor.throughput(model_on(d.function(), d.revision, device), at);
}

// The throughput of `count` instances at most, the best first: what is being replaced does not
// count twice.
double throughput_of(const ClusterPlan& plan, const Demand& d, int count) {
  std::vector<double> each;
  const PlannedInstance* last = nullptr;
  for (const size_t i : plan.serving(d)) {
    const PlannedInstance& p = plan.at(i);
    const Device& device = plan.layout(p).device();
    const bool same = last != nullptr && last->instance.slice() == p.instance.slice() &&
                      last->instance.batch == p.instance.batch &&
                      alike(plan.layout(*last).device(), device);
    each.push_back(same ? each.back() : throughput_of(p.instance, device, d, plan.predictor()));
    last = &p;
  }
  std::sort(each.begin(), each.end(), std::greater<>());
  double sum = 0;
  for (size_t i = 0; i < each.size() && std::cmp_less(i, count); ++i) sum += each[i];
  return sum;
}

// What is remembered of a revision: when it was decided last, when its window began, how many
// instances it should have, and how many of those have run. Times are seconds.
struct Remembered {
  double touched = 0, since = 0;
  int count = 0, reached = 0;
};

// A time after now is of another boot's clock.
Remembered remembered(const std::vector<double>& n, double now, int running) {
  if (n.size() != 4 || n[0] > now) return {now, 0, running, running};
  return {now, n[1], static_cast<int>(n[2]), std::max(static_cast<int>(n[3]), running)};
}

// The inferences asked for in each of the last seconds, at most `age` ago; in no particular order.
// A stated rate is asked for in each of them.
std::vector<double> asked_of(const Demand& d, double age) {
  const int most = d.settings->as<DiluSettings>().window;
  const int length = static_cast<int>(std::min<double>(most, age));
  const std::vector<uint32_t> counts = d.view->arrivals->per_second(length);
  const double stated = d.inference().slo.rate;
  std::vector<double> all(counts.begin(), counts.end());
  if (stated > 0) all.resize(static_cast<size_t>(length));
  for (double& rate : all) rate = std::max(rate, stated) * d.part;
  return all;
}

// The sentence about a window of `window` seconds, in which `count` instances could do `all`.
std::string lazily(const LazyScale& lazy, size_t window, int count, double all, double one) {
  const std::string seconds =
      " of the last " + counted(static_cast<int>(window), "second") + " asked for ";
  const std::string they = counted(count, "instance");
  if (lazy.more > 0)
    return std::to_string(lazy.above) + seconds + "more than the " + per_second(all) + " of " +
           they + ", " + per_second(lazy.asked) + " on average.";
  if (lazy.more < 0)
    return std::to_string(lazy.below) + seconds + "less than the " + per_second(all - one) +
           " of one instance less.";
  if (count == 0) return "At least one instance always stays.";
  std::string text = they + (count == 1 ? " does " : " do ") + per_second(all);
  if (window > 0) text += "; " + std::to_string(lazy.above) + seconds + "more";
  return text + ".";
}

Replicas lazy_replicas(const ClusterPlan& plan, const Demand& d) {
  const Input& input = plan.input();
  const auto& config = d.settings->as<DiluSettings>();
  const int least = least_replicas(d), most = most_replicas(d);
  const int running = static_cast<int>(plan.serving(d).size());
  const double now = input.now();
  std::vector<double>& numbers = input.memory.numbers[revision_id(d.function(), d.revision)];
  Remembered state = remembered(numbers, now, running);

  const Sized size = sized(plan, d);
  const int counting = std::min(running, state.count);
  const double all = throughput_of(plan, d, counting);
  const double one = counting > 0 ? all / counting : 0;
  const std::vector<double> window = asked_of(d, now - state.since);
  const LazyScale lazy = lazy_scale(config, window, all, one);
  if (lazy.more > 0) state.since = now;
  if (lazy.more != 0) state.count = counting + lazy.more;
  // What died is replaced; what never found a place is forgotten once the load does without it.
  if (lazy.more == 0 && lazy.above == 0 && !window.empty())
    state.count = std::min(state.count, state.reached);
  state.count = std::clamp(state.count, least, most);
  state.reached = std::min(state.reached, state.count);
  numbers = {state.touched, state.since, static_cast<double>(state.count),
             static_cast<double>(state.reached)};
  return {.at_least = state.count,
          .at_most = state.count,
          .slice = size.slice,
          .because =
              size.known ? lazily(lazy, window.size(), counting, all, one) + size.note : size.note,
          .numbers = nonzero({{"throughput", all},
                              {"asked", lazy.asked},
                              {"above", lazy.above},
                              {"below", lazy.below}}),
          .batch = size.batch};
}

}  // namespace

std::span<const Setting<DiluSettings>> DiluSettings::settings() {
  using S = DiluSettings;
  static constexpr Setting<S> kAll[] = {
      {"slo_fraction", &S::slo_fraction, 0.05, 1, "of the objective, for a batch of a trial"},
      {"share_step", &S::share_step, 10, 1000, "by which trials grow; also the least request"},
      {"limit_factor", &S::limit_factor, 1, 100, "limit ÷ request"},
      {"window", &S::window, 1, 600, "seconds of load that decide"},
      {"scale_out_after", &S::scale_out_after, 1, 600, "seconds above the throughput, at least"},
      {"scale_in_after", &S::scale_in_after, 0, 600, "seconds below one instance less, more than"},
      {"tolerance", &S::tolerance, 0, 4, "× the shortest, a slow iteration (1.2 at least); 0: 1.6"},
      {"sm_profile", &S::sm_profile, 0, 1, "reads the profile's shares of SMs as elastic ones"},
  };
  return kAll;
}

LazyScale lazy_scale(const DiluSettings& settings, std::span<const double> seconds, double all,
                     double one) {
  LazyScale lazy;
  double sum = 0;
  for (const double rate : seconds) {
    if (rate > all) ++lazy.above, sum += rate;
    lazy.below += rate < all - one;
  }
  if (one <= 0) return lazy;
  if (lazy.above > 0) lazy.asked = sum / lazy.above;
  if (lazy.above >= settings.scale_out_after)
    lazy.more = static_cast<int>(std::min(std::ceil((lazy.asked - all) / one), 1e6));
  else if (lazy.below > settings.scale_in_after)
    lazy.more = -1;
  return lazy;
}

std::vector<Action> scale_dilu(Input& input) {
  ClusterPlan plan(input, /*movable=*/true);
  for (const Demand& d : plan.demands()) {
    const Replicas replicas = lazy_replicas(plan, d);
    hold_replicas(plan, d, replicas);
    if (replicas.batch == 0) report_unmeasured(plan, d);  // the profile has the batch
  }
  input.memory.forget_before(input.now() - 3600);  // of deleted functions; no window is longer
  return plan.actions();
}

}  // namespace sluice::policy
