#include "policy/scale/scale_has_gpu.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "policy/explain.h"
#include "policy/scale/capability.h"
#include "policy/scale/choose_slice.h"
#include "policy/scale/cluster_plan.h"
#include "policy/scale/shortage.h"
#include "policy/scale/unmeasured.h"

namespace sluice::policy {
namespace {

// Algorithm 1 for one revision, on the plan left by the functions before it.
class HybridScaler {
 public:
  HybridScaler(ClusterPlan& plan, const Demand& demand)
      : plan_(plan),
        demand_(demand),
        config_(demand.settings->as<HasGpuSettings>()),
        sizing_(config_.sizing()),
        capabilities_(demand, sizing_, plan.predictor(), plan.types()),
        now_(plan.input().snapshot.now) {}

  void scale_down();
  void cover_load();
  void scale_up();
  void leave_drained();

 private:
  // Inferences per second that the revision must be able to do.
  double wanted() const { return demand_.rate() / config_.alpha + work_off(); }
  double load() const { return demand_.rate() + work_off(); }
  double work_off() const;
  Quota quota(Share request) const { return {request, config_.borrow ? kWhole : request}; }
  bool known() const { return capabilities_.best().known(); }  // measured on some type
  const Capability& where_it_runs(const PlannedInstance& p) const;
  double capability(const PlannedInstance& p, Share quota) const;
  double capability(size_t i) const;
  const std::vector<size_t>& counted() const;  // serving, not on a cordoned device
  double capacity() const;                     // of these
  void resize(size_t i, Share request, Reason reason);
  void stop(size_t i, Reason reason);
  void changed() { counted_.reset(), capacity_.reset(); }

  double last_minute() const;
  double late_alone() const;
  bool cooled() const;
  int least(double allowed) const;
  double rate_in_time() const;
  double needed_now() const;
  double needed_after_cut() const;
  bool starts_were_worth_it() const;
  Share lowered_quota(size_t i, double needed) const;
  Share raised_quota(size_t i, double needed) const;
  void raise_quotas(double wanted);
  void start_instances(bool last = true);
  double enough() const;
  void give_back_unmeasured();
  void grow_unmeasured();
  Reason why_not_grown(const Pace& pace, const std::string& lead) const;
  std::optional<SliceCandidate> as_stated(double need, bool emptiest = false);
  bool equal_share() const;
  void start(const SliceCandidate& c, Reason reason);

  std::string load_text() const;
  std::string carries_text(double capacity) const;
  std::string always_text() const;
  Numbers numbers(double before, double after) const;
  Reason why_less(std::string rule, const std::string& change, double before, double after) const;
  Reason why_started(const SliceCandidate& c, double gap) const;
  Reason why_lone(const SliceCandidate& c) const;
  Reason why_unmet(double gap) const;
  std::string uncovered_text(double gap) const;

  ClusterPlan& plan_;
  const Demand& demand_;
  const HasGpuSettings& config_;
  const Sizing sizing_;
  Capabilities capabilities_;
  Time now_;
  // Results of counted() and capacity(), until the next change.
  mutable std::optional<std::vector<size_t>> counted_;
  mutable std::optional<double> capacity_;
  std::optional<double> found_;  // the capacity before cover_load()
};

const Capability& HybridScaler::where_it_runs(const PlannedInstance& p) const {
  return capabilities_.on(plan_.device(p));
}

double HybridScaler::capability(const PlannedInstance& p, Share quota) const {
  return where_it_runs(p).of({p.instance.batch, p.instance.slice().sm, quota});
}

double HybridScaler::capability(size_t i) const {
  const PlannedInstance& p = plan_.at(i);
  return capability(p, p.instance.slice().quota.request);
}

const std::vector<size_t>& HybridScaler::counted() const {
  if (!counted_) counted_ = plan_.counted(demand_);
  return *counted_;
}

double HybridScaler::capacity() const {
  if (!capacity_) {
    capacity_ = 0;
    for (const size_t i : counted()) *capacity_ += capability(i);
  }
  return *capacity_;
}

void HybridScaler::resize(size_t i, Share request, Reason reason) {
  plan_.resize(i, quota(request), std::move(reason));
  changed();
}

void HybridScaler::stop(size_t i, Reason reason) {
  plan_.stop(i, std::move(reason));
  changed();
}

// Waiting requests beyond one batch for each instance, which is about to take it. Requests that
// wait for a first instance to become ready say nothing about the capacity.
double HybridScaler::work_off() const {
  if (!config_.work_off || demand_.inference().slo.latency <= Nanos(0)) return 0;
  double waiting = demand_.view->queued * demand_.part;
  if (waiting <= 0) return 0;
  bool ready = false;
  for (const size_t i : counted()) {
    waiting -= plan_.at(i).instance.batch;
    ready |= plan_.at(i).instance.state == InstanceState::kReady;
  }
  if (!ready) return 0;
  return std::max(0.0, waiting) / (seconds(demand_.inference().slo.latency) * config_.slo_fraction);
}

// "8.9/s expected".
std::string HybridScaler::load_text() const {
  const std::string expected = demand_.rate() < 0.05 ? "No load" : per_second(demand_.rate());
  if (work_off() <= 0) return expected + " expected";
  return expected + " expected and " + std::to_string(demand_.view->queued) +
         " waiting, which need another " + per_second(work_off()) + " to be in time";
}

// "12.6/s at 70 % carries 8.8/s; 8.9/s expected".
std::string HybridScaler::carries_text(double capacity) const {
  if (capacity <= 0) return load_text() + " and no instance to carry it";
  return per_second(capacity) + " at " + percent(config_.alpha) + " carries " +
         per_second(config_.alpha * capacity) + "; " + load_text();
}

Numbers HybridScaler::numbers(double before, double after) const {
  return nonzero({{"forecast", demand_.rate()},
                  {"waiting", demand_.view->queued * demand_.part},
                  {"capacity", before},
                  {"capacity_after", after}});
}

// --- down ---

// An instance that the last minute's load could do without stops. One that the present load can do
// without rests: it keeps the least quota, and gets more again when it is needed.
void HybridScaler::scale_down() {
  if (!known()) return give_back_unmeasured();
  if (!cooled()) return;
  const double before = capacity();
  const bool too_much = load() < config_.beta * before;

  std::vector<size_t> narrowest_first = counted();
  std::stable_sort(narrowest_first.begin(), narrowest_first.end(), [&](size_t a, size_t b) {
    return plan_.at(a).instance.slice().sm < plan_.at(b).instance.slice().sm;
  });
  const double peak = needed_after_cut(), now = needed_now();
  double left = before;
  int count = static_cast<int>(narrowest_first.size());
  auto working =
      std::ranges::count_if(narrowest_first, [&](size_t i) { return capability(i) > 0; });
  const bool may_leave = starts_were_worth_it();
  const int fewest = least(0.25);
  for (const size_t i : narrowest_first) {
    const bool works = capability(i) > 0;
    if (!plan_.can_change(i) || (!too_much && (works || !config_.keep_peak))) continue;
    const double others = left - capability(i);
    if (may_leave && count > fewest && others >= peak) {
      left = others, --count, working -= works ? 1 : 0;
      const std::string rest =
          count == 1 ? "the other one can do " : "the other " + std::to_string(count) + " can do ";
      stop(i, why_less("scale-in", rest + per_second(left), before, left));
      continue;
    }
    const PlannedInstance& p = plan_.at(i);
    const Share from = p.instance.slice().quota.request;
    const bool rests = config_.keep_peak && works && working > fewest && others >= now;
    const Share to = rests ? std::min(from, sizing_.min_quota) : lowered_quota(i, now - others);
    if (to == from) continue;
    left = others + capability(p, to), working -= rests ? 1 : 0;
    const std::string change = "quota " + percent(from) + " → " + percent(to) + " on " +
                               p.instance.device() + " leaves " + per_second(left) +
                               (rests ? ", so that it is warm for the next burst" : "");
    resize(i, to, why_less("vertical-down", change, before, left));
  }
}

bool HybridScaler::cooled() const {
  const Time last = demand_.view->last_scale_down;
  return last == Time{} || now_ - last >= config_.cooldown;
}

// What quotas that fall leave. Ours leaves the forecast in the middle between alpha and beta, so
// that neither more nor less is wanted at once.
double HybridScaler::needed_now() const {
  if (!config_.keep_peak) return demand_.rate() / config_.alpha + work_off();
  return demand_.rate() / enough() + work_off();
}

// What an instance that stops leaves. Ours leaves as much for the last minute's highest forecast: a
// quota comes back within a decision, an instance only after a start.
double HybridScaler::needed_after_cut() const {
  if (!config_.keep_peak) return needed_now();
  const double peak = std::max(demand_.view->forecast_peak * demand_.part, demand_.rate());
  return peak / enough() + work_off();
}

// Inferences per second, on average.
double HybridScaler::last_minute() const {
  constexpr int kSeconds = 60;
  const std::vector<uint32_t> counts = demand_.view->arrivals->per_second(kSeconds);
  return std::accumulate(counts.begin(), counts.end(), 0.0) * demand_.part / kSeconds;
}

// Which part of the last minute's requests would be late with one instance, as a part of what the
// objective's percentile allows.
double HybridScaler::late_alone() const {
  if (!config_.lone_in_time || !known()) return 0;
  const double allowed = std::max(1 - demand_.inference().slo.percentile / 100, 0.001);
  return capabilities_.best().late_alone(last_minute()) / allowed;
}

bool HybridScaler::starts_were_worth_it() const {
  if (!config_.outlast_starts) return true;
  const std::vector<size_t>& all = counted();
  return std::all_of(all.begin(), all.end(), [&](size_t i) {
    const Instance& instance = plan_.at(i).instance;
    if (instance.state != InstanceState::kReady) return false;
    return instance.started == Time{} || now_ - instance.started >= 2 * demand_.view->start_cost;
  });
}

// Returns the smallest quota on the way down with which the instance still does `needed`.
Share HybridScaler::lowered_quota(size_t i, double needed) const {
  const PlannedInstance& p = plan_.at(i);
  const Slice& slice = p.instance.slice();
  const Share floor = where_it_runs(p).idle_quota(slice.sm, p.instance.batch).value_or(kWhole);
  Share quota = slice.quota.request;
  while (quota > floor) {
    const Share next = std::max(quota_below(quota, sizing_), floor);
    if (capability(p, next) < needed) break;
    quota = next;
  }
  return quota;
}

Reason HybridScaler::why_less(std::string rule, const std::string& change, double before,
                              double after) const {
  const std::string than =
      load() < config_.beta * before
          ? ", below " + percent(config_.beta) + " of the capacity of " + per_second(before)
          : "";
  return {std::move(rule), load_text() + than + ": " + change + ".", numbers(before, after)};
}

// --- up ---

// Ours, before any function gets more than it has load for: on full devices the first one's spare
// capacity is not the others' shortage.
void HybridScaler::cover_load() {
  if (!config_.load_first || !known()) return;
  found_ = capacity();
  if (load() > capacity()) raise_quotas(load());
  if (load() > capacity()) start_instances(/*last=*/false);
}

void HybridScaler::scale_up() {
  if (wanted() > capacity()) raise_quotas(wanted());
  start_instances();
}

// Step 1.
void HybridScaler::raise_quotas(double wanted) {
  std::vector<size_t> widest_first = counted();
  std::stable_sort(widest_first.begin(), widest_first.end(), [&](size_t a, size_t b) {
    return plan_.at(a).instance.slice().sm > plan_.at(b).instance.slice().sm;
  });
  const double before = found_.value_or(capacity());
  double reached = capacity();
  for (const size_t i : widest_first) {
    if (reached >= wanted) return;
    if (!plan_.can_change(i)) continue;
    const PlannedInstance& p = plan_.at(i);
    const double others = reached - capability(i);
    const Share from = (p.before != nullptr ? *p.before : p.instance).slice().quota.request;
    const Share to = raised_quota(i, wanted - others);
    const double then = others + capability(p, to);
    if (then <= reached) continue;  // more time would not help this one
    reached = then;
    resize(i, to,
           {"vertical-up",
            carries_text(before) + ". Quota " + percent(from) + " → " + percent(to) + " on " +
                p.instance.device() + " makes it " + per_second(reached) + ".",
            numbers(before, reached)});
  }
}

// Returns the first quota on the way up with which the instance does `needed`, or as much as with
// the most that its lane has.
Share HybridScaler::raised_quota(size_t i, double needed) const {
  const PlannedInstance& p = plan_.at(i);
  const Share most = plan_.layout(p).max_quota(p.instance.id);
  const double enough = worth_having(needed, capability(p, most), sizing_);
  Share quota = p.instance.slice().quota.request;
  while (quota < most && capability(p, quota) < enough) {
    quota = std::min(quota_above(quota, sizing_), most);
  }
  return quota;
}

// How many instances there must be. Ours lets waiting alone use up half of what the percentile
// allows; the second instance stays until it would be a quarter, so that it does not come and go.
int HybridScaler::least(double allowed) const {
  const int least = std::max(least_replicas(demand_), late_alone() > allowed ? 2 : 1);
  return std::min(least, most_replicas(demand_));
}

// What an instance does that answers one request in time beside busy neighbours.
double HybridScaler::rate_in_time() const {
  const Capability& best = capabilities_.best();
  const int batch = best.best_batch(kWhole, kWhole).value_or(1);
  return best.of({batch, kWhole, best.idle_quota(kWhole, batch).value_or(kWhole)});
}

// Steps 2 and 3, repeated until the gap is covered and the least number of instances is there. What
// stays uncovered is said the last time.
void HybridScaler::start_instances(bool last) {
  for (;;) {
    const int count = static_cast<int>(counted().size());
    const int missing = least(0.5) - count;
    if (!known() && missing <= 0) return grow_unmeasured();
    double gap = known() ? wanted() - capacity() : 0;
    if (gap <= config_.slack * capacity()) gap = 0;
    if (gap <= 0 && missing <= 0) return;
    const bool lone = gap <= 0 && count >= least_replicas(demand_);
    const double need = lone ? rate_in_time() : std::max(gap, config_.min_rate);
    std::optional<SliceCandidate> chosen;
    if (count < most_replicas(demand_)) {
      if (count == 0 || !known()) chosen = as_stated(need);
      if (!chosen) chosen = covering_slice(plan_.layouts(), capabilities_, sizing_, need);
      if (!chosen && !lone) chosen = most_capable_slice(plan_.layouts(), capabilities_, sizing_);
    }
    if (!chosen && !last) return;
    if (!chosen) return plan_.unmet(demand_, need, why_unmet(gap));
    start(*chosen, why_started(*chosen, gap));
  }
}

// The first instance has the slice that the function's file states, with more quota if the load
// needs it. Every instance of an unmeasured function has it too; if the file states none, an equal
// share of the emptiest device. Returns nothing if a measured function's file states none, or no
// device has space.
std::optional<SliceCandidate> HybridScaler::as_stated(double need, bool emptiest) {
  const std::optional<Slice>& stated = demand_.spec->slice;
  if (!stated && known()) return std::nullopt;
  PlaceRequest request{.function = demand_.view, .memory = capabilities_.most_memory()};
  request.sm = stated ? stated->sm : kWhole;
  request.quota = quota(stated ? stated->quota.request : config_.unmeasured);
  Layouts& layouts = plan_.layouts();
  const std::vector<Spot> spots =
      stated && !emptiest ? layouts.place(request) : emptiest_fit(layouts, request);
  if (spots.empty()) return std::nullopt;
  SliceCandidate c{spots.front(), 1, request.quota.request, 0};
  const Share sm = c.spot.opening.sm, room = c.spot.opening.quota;
  const Capability& there = capabilities_.on(c.spot.device->device());
  c.batch = there.best_batch(sm, kWhole)
                .value_or(most_at_once(*demand_.spec, type_of(c.spot.device->device())));
  const auto of = [&](Share q) { return there.of({c.batch, sm, q}); };
  while (there.known() && of(c.quota) < need && c.quota < room) {
    c.quota = std::min(quota_above(c.quota, sizing_), room);
  }
  c.capability = of(c.quota);
  return c;
}

bool HybridScaler::equal_share() const {
  return !known() && !demand_.spec->slice;
}

void HybridScaler::start(const SliceCandidate& c, Reason reason) {
  const Quota held = equal_share() ? Quota{c.quota, kWhole} : quota(c.quota);
  const Bytes memory = capabilities_.on(c.spot.device->device()).memory();
  plan_.start(demand_, c.spot, held, memory, c.batch, std::move(reason));
  changed();
}

std::string HybridScaler::always_text() const {
  const int stay = least_replicas(demand_);
  return stay == 1 ? "One instance always stays"
                   : std::to_string(stay) + " instances always stay (minReplicas)";
}

Reason HybridScaler::why_started(const SliceCandidate& c, double gap) const {
  const double before = capacity();
  const std::string slice = spot_text(c.spot, c.quota);
  if (gap <= 0 && std::ssize(counted()) >= least_replicas(demand_)) return why_lone(c);
  if (gap <= 0) {
    const std::string why_so =
        equal_share() ? ", an equal share, as the model was never measured (sluice profile)" : "";
    return {"keep-alive", always_text() + ": " + slice + why_so + ".",
            numbers(before, before + c.capability)};
  }
  return {c.spot.device->used() ? "used-device" : "new-device",
          carries_text(before) + ". " + (before > 0 ? "Another" : "An") + " instance, " + slice +
              ", batch " + std::to_string(c.batch) + ", brings " + per_second(c.capability) + ".",
          numbers(before, before + c.capability)};
}

Reason HybridScaler::why_lone(const SliceCandidate& c) const {
  const double late = capabilities_.best().late_alone(last_minute());
  return {c.spot.device->used() ? "used-device" : "new-device",
          per_second(last_minute()) +
              " in the last minute: one instance would be busy for too long when " + percent(late) +
              " of the requests come; the objective allows for " +
              percent(1 - demand_.inference().slo.percentile / 100) + ". A second instance, " +
              spot_text(c.spot, c.quota) + ".",
          numbers(capacity(), capacity() + c.capability)};
}

// --- without measured times ---

// The part of the capacity above which another instance helps: the middle between alpha and beta,
// so that at one load no instance comes and goes.
double HybridScaler::enough() const {
  return (config_.alpha + config_.beta) / 2;
}

// Starts one instance, once all are ready, on the emptiest device: there it can borrow most. Until
// the last one shows in what is measured, a load that the capacity carries starts none, as what
// waited is being worked off. Where no instance answers, none is started, as all may be broken.
void HybridScaler::grow_unmeasured() {
  const Pace pace = pace_of(plan_, demand_);
  const int leaving = static_cast<int>(plan_.cordoned(demand_).size());
  if (!pace.settled() || (pace.behind.empty() && leaving == 0)) return;
  const bool shows = now_ - pace.last_start >= demand_.view->start_cost + kMeasuredOver;
  const double part = shows ? enough() : 1;
  const bool helps = pace.each > 0 && demand_.rate() > part * pace.capacity();
  if (!helps && (pace.behind.empty() || !shows)) return;
  const std::string why =
      pace.behind.empty() ? policy::counted(leaving, "instance") + " will leave a cordoned device"
                          : pace.behind;
  const std::string lead =
      why + "; " + per_second(demand_.rate()) + " expected, " + pace.does_text();
  if (!helps)
    return plan_.unmet(demand_, 0,
                       {"never-measured", lead + ": another would hardly help." + kNeverMeasured,
                        pace.numbers(demand_)});
  const auto chosen =
      pace.count < most_replicas(demand_) ? as_stated(0, /*emptiest=*/true) : std::nullopt;
  if (!chosen) return plan_.unmet(demand_, 0, why_not_grown(pace, lead));
  start(*chosen, {chosen->spot.device->used() ? "used-device" : "new-device",
                  lead + ". Another instance, " + spot_text(chosen->spot, chosen->quota) + "." +
                      kNeverMeasured,
                  pace.numbers(demand_)});
}

Reason HybridScaler::why_not_grown(const Pace& pace, const std::string& lead) const {
  const Numbers numbers = pace.numbers(demand_);
  const int most = most_replicas(demand_);
  if (pace.count >= most)
    return {"max-replicas",
            lead + ": maxReplicas allows " + std::to_string(most) + "." + kNeverMeasured, numbers};
  const std::optional<Slice>& stated = demand_.spec->slice;
  Reason reason = shortage(plan_, lead + ": ",
                           stated ? slice_text(stated->sm, stated->quota.request)
                                  : slice_text(kWhole, config_.unmeasured),
                           capabilities_.most_memory(), numbers);
  reason.text += kNeverMeasured;
  return reason;
}

// Stops the newest instance, one in a cooldown, if it is spare for needed_after_cut(). What an
// instance does is remembered, as at a few requests a minute hardly any answer is measured.
void HybridScaler::give_back_unmeasured() {
  Pace pace = pace_of(plan_, demand_);
  if (pace.count <= least_replicas(demand_)) return;
  const double now = plan_.input().now();
  std::vector<double>& remembered =
      plan_.input().memory.numbers[revision_id(demand_.function(), demand_.revision)];
  if (pace.each > 0)
    remembered = {now, pace.each};
  else if (remembered.size() == 2 && remembered[0] <= now)
    pace.each = remembered[1];
  if (!pace.settled() || !pace.behind.empty()) return;
  const bool idle = load() <= config_.min_rate;
  if (!idle && load() >= config_.beta * pace.capacity()) return;
  const double others = std::max((pace.count - 1) * pace.each, config_.min_rate);
  if (others < needed_after_cut() || !cooled() || !starts_were_worth_it()) return;
  std::vector<size_t> newest_last = counted();
  std::erase_if(newest_last, [&](size_t i) { return !plan_.can_change(i); });
  if (newest_last.empty()) return;
  std::ranges::stable_sort(newest_last, {}, [&](size_t i) { return plan_.at(i).instance.started; });
  const std::string than = idle ? ""
                                : ", below " + percent(config_.beta) + " of the " +
                                      per_second(pace.capacity()) + " of " +
                                      policy::counted(pace.count, "instance");
  stop(newest_last.back(),
       {"scale-in",
        load_text() + than + ": " + policy::counted(pace.count - 1, "instance") +
            (pace.count == 2 ? " stays." : " stay.") + kNeverMeasured,
        pace.numbers(demand_)});
}

// --- cordoned devices ---

// Make before break: the others must be ready and sufficient.
void HybridScaler::leave_drained() {
  const std::vector<size_t> cordoned = plan_.cordoned(demand_);
  if (cordoned.empty()) return;
  double ready = 0;
  int count = 0;
  for (const size_t i : counted()) {
    if (plan_.at(i).instance.state != InstanceState::kReady) continue;
    ready += capability(i), ++count;
  }
  if (count < least_replicas(demand_)) return;
  if (known() && ready < wanted()) return;
  if (!known() && count < most_replicas(demand_)) {
    const Pace pace = pace_of(plan_, demand_);
    if (pace.each > 0 && pace.ready * pace.each < demand_.rate()) return;
  }
  for (const size_t i : cordoned) {
    const std::string can_do = ready > 0 ? ", which can do " + per_second(ready) : "";
    stop(i, {"drained-device",
             "Device " + plan_.at(i).instance.device() + " is cordoned, and " +
                 policy::counted(count, "instance") + " elsewhere " + (count == 1 ? "is" : "are") +
                 " ready" + can_do + ".",
             nonzero({{"forecast", demand_.rate()}, {"capacity_after", ready}})});
  }
}

// --- nothing fits ---

// Why the missing instance is needed, and what stays on cordoned devices for lack of it.
std::string HybridScaler::uncovered_text(double gap) const {
  std::string text = carries_text(capacity()) + ", " + per_second(gap) + " stay uncovered";
  const int count = static_cast<int>(counted().size());
  if (gap <= 0 && count >= least_replicas(demand_)) {
    text = per_second(last_minute()) +
           " in the last minute, for which one instance would be busy too often";
  } else if (gap <= 0) {
    text = always_text() +
           (count == 0 ? " and none runs"
                       : ", and " + std::to_string(count) + (count == 1 ? " runs" : " run"));
  }
  for (const size_t i : plan_.cordoned(demand_)) {
    const Instance& instance = plan_.at(i).instance;
    text += "; " + instance.id + " stays on the cordoned device " + instance.device();
  }
  return text + ": ";
}

Reason HybridScaler::why_unmet(double gap) const {
  const Numbers demand =
      nonzero({{"forecast", demand_.rate()}, {"capacity", capacity()}, {"gap", gap}});
  if (static_cast<int>(counted().size()) >= most_replicas(demand_)) {
    return {"max-replicas",
            uncovered_text(gap) + "maxReplicas allows " + std::to_string(most_replicas(demand_)) +
                ", and all of them have the most quota that their lanes have.",
            demand};
  }
  const Capability& best = capabilities_.best();
  if (best.known() && *best.fastest() > best.bound()) {
    return {"slo-impossible",
            "No slice meets the objective of " + milliseconds(demand_.inference().slo.latency) +
                ": a whole device answers one request in " + milliseconds(*best.fastest()) + ".",
            {{"fastest_ms", millis(*best.fastest())}}};
  }
  const std::optional<Slice>& stated = demand_.spec->slice;
  std::string what = slice_text(kWhole, config_.unmeasured);
  if (stated && (!best.known() || counted().empty()))
    what = slice_text(stated->sm, stated->quota.request);
  else if (best.known())
    what = best.bound() == Nanos::max()
               ? "another slice"
               : "a slice that answers within " + milliseconds(best.bound());
  return shortage(plan_, uncovered_text(gap), what, best.memory(), demand,
                  best.known() ? &demand_ : nullptr);
}

}  // namespace

std::span<const Setting<HasGpuSettings>> HasGpuSettings::settings() {
  using S = HasGpuSettings;
  static constexpr Setting<S> kAll[] = {
      {"alpha", &S::alpha, 0.05, 1, "part of the capacity above which more is taken"},
      {"beta", &S::beta, 0, 0.95, "part of the capacity below which some is given back"},
      {"quota_step", &S::quota_step, 1, 1000, "by which quotas change"},
      {"min_quota", &S::min_quota, 1, 1000, "least quota of an instance"},
      {"cooldown", &S::cooldown, 0, 3600, "between two times that a function gives back"},
      {"min_rate", &S::min_rate, 0, 1000, "inferences a second that always stay possible"},
      {"slo_fraction", &S::slo_fraction, 0.05, 1, "of the objective: the longest batch"},
      {"idle_meets_slo", &S::idle_meets_slo, 0, 1, "an idle instance still answers in time"},
      {"borrow", &S::borrow, 0, 1, "an instance may use what its lane leaves idle"},
      {"work_off", &S::work_off, 0, 1, "what waits counts as load"},
      {"slack", &S::slack, 0, 0.5, "gap, as a part of the capacity, that is worth no start"},
      {"keep_peak", &S::keep_peak, 0, 1,
       "what stops is spare for the last minute; what rests, now"},
      {"load_first", &S::load_first, 0, 1, "every function's load comes before any one's spare"},
      {"lone_in_time", &S::lone_in_time, 0, 1, "a second instance where a lone one is often busy"},
      {"outlast_starts", &S::outlast_starts, 0, 1, "none leaves until a start was worth its cost"},
      {"unmeasured", &S::unmeasured, 1, 1000, "request of a model that was never measured"},
  };
  return kAll;
}

std::vector<Action> scale_has_gpu(Input& input) {
  ClusterPlan plan(input, /*movable=*/true);
  std::vector<HybridScaler> scalers;
  scalers.reserve(plan.demands().size());
  for (const Demand& d : plan.demands()) scalers.emplace_back(plan, d);
  // Quota that some give back, others may take in the same tick.
  for (HybridScaler& s : scalers) s.scale_down();
  for (HybridScaler& s : scalers) s.leave_drained();
  for (HybridScaler& s : scalers) s.cover_load();
  for (HybridScaler& s : scalers) s.scale_up();
  input.memory.forget_before(input.now() - 3600);  // of deleted functions
  return plan.actions();
}

}  // namespace sluice::policy
