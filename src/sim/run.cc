#include "sim/run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "control/desired_memory.h"
#include "control/journal_memory.h"
#include "control/requests.h"
#include "predict/profile_table.h"
#include "sim/audit.h"
#include "sim/training.h"

namespace sluice::sim {
namespace {

constexpr UnixMillis kWallBegin = 1'700'000'000'000;  // of people's clock, at the start
constexpr int64_t kMostAtOnce = 10'000'000;           // events
constexpr Nanos kArrivalGrid = Micros(1);  // so that the last digit of a logarithm does not matter

// The arrivals of one load, in order.
class Stream {
 public:
  Stream(const Load& load, uint64_t seed) : load_(&load), arrivals_(load.plan, load.gaps, seed) {}
  const Load& load() const { return *load_; }

  std::optional<Nanos> next() {
    if (!load_->times.empty())
      return at_ < load_->times.size() ? std::optional(load_->times[at_++]) : std::nullopt;
    const auto next = arrivals_.next();
    return next ? std::optional(*next / kArrivalGrid * kArrivalGrid) : std::nullopt;
  }

 private:
  const Load* load_;
  Arrivals arrivals_;
  size_t at_ = 0;
};

// Returns the exact quantile of sorted values; 0 for none.
Nanos quantile(const std::vector<int64_t>& sorted, int percent) {
  if (sorted.empty()) return Nanos(0);
  const size_t rank = (sorted.size() * static_cast<size_t>(percent) + 99) / 100;
  return Nanos(sorted[std::max<size_t>(rank, 1) - 1]);
}

control::Account since(const control::Account& then, const control::Account& now) {
  return {.slice_seconds = now.slice_seconds - then.slice_seconds,
          .used_seconds = now.used_seconds - then.used_seconds,
          .cost = now.cost - then.cost,
          .resizes = now.resizes - then.resizes,
          .starts = now.starts - then.starts,
          .stops = now.stops - then.stops};
}

class Play {
 public:
  Play(const Scenario& scenario, const Watch& watch)
      : scenario_(scenario),
        watch_(watch),
        cluster_(plan_of(scenario), truth_, clock_, events_,
                 [this](const Answer& a) { answered(a); }) {
    cluster_.run_workers_as(training_);
  }

  Result<Outcome> run(const std::string& policy, const std::string& plan);

 private:
  // A function's requests so far.
  struct Tally {
    FunctionOutcome counts;
    std::vector<int64_t> latencies;  // of answered ones, in nanoseconds
    uint64_t ended = 0;
    uint64_t cold_before = 0;
    control::Account before;
    TimelineRow row;  // of the second in progress
    std::vector<int64_t> row_latencies;
  };

  static ClusterPlan plan_of(const Scenario& s) {
    ClusterPlan plan = s.cluster;
    plan.seed = s.seed;
    return plan;
  }

  Result<void> open(const std::string& policy, const std::string& plan);
  void tick();
  void tick_door();
  void arrive(size_t stream);
  void answered(const Answer& a);
  void begin_counting();
  void sample_use();
  void end_second();
  void show_occupants(Nanos passed);
  void submit(const ScenarioJob& job);
  bool is_known(const control::Profile& p) const;
  bool ends_with_jobs() const { return !scenario_.jobs.empty() && scenario_.functions.empty(); }
  bool is_over() const;
  double done(Nanos passed) const;
  void happen(const Fault& f);
  void add_faults();
  uint64_t cold_starts(const FunctionName& f) const;
  Outcome outcome(const std::string& name);
  UnixMillis wall() const {
    return kWallBegin + (clock_.now() - start_ + clock_jumps_) / Millis(1);
  }

  const Scenario& scenario_;
  const Watch& watch_;
  ManualClock clock_;
  const Time start_ = clock_.now();
  EventQueue events_;
  predict::ProfileTable believed_;  // what the loop learns
  predict::ProfileTable truth_;
  SimulatedCluster cluster_;
  SimulatedTraining training_{scenario_.jobs, scenario_.job_physics, cluster_, clock_, events_};
  Audit audit_{scenario_, cluster_, truth_};
  control::MemoryDesiredState desired_;
  control::MemoryJournal journal_;
  std::unique_ptr<control::Control> control_;
  std::vector<Stream> streams_;
  std::map<FunctionName, Tally> tallies_;
  uint64_t arrived_ = 0, ended_ = 0;  // requests of all functions, from the start on
  Nanos clock_jumps_{0};              // of people's clock, so far
  bool counting_ = false, stopped_ = false, over_ = false;
  Time counted_from_{}, sampled_{};
  SimulatedCluster::Use use_;
  double device_seconds_ = 0, free_area_ = 0, free_memory_ = 0, memory_there_ = 0;
  int devices_max_ = 0;
  double busy_before_ = 0;  // of all instances, before counting began
  uint64_t decisions_ = 0;
  Result<void> broken_;
};

Result<void> Play::open(const std::string& policy, const std::string& plan) {
  SLUICE_ASSIGN(
      opened, control::Control::open({desired_, journal_, cluster_, believed_, clock_, &training_},
                                     {.bundle = policy,
                                      .plan = plan,
                                      .loans = scenario_.loans,
                                      .seed = scenario_.seed,
                                      .tick_every = scenario_.tick,
                                      .boot_id = "boot",
                                      .on_phase = watch_.on_phase}));
  control_ = std::move(opened);
  control_->step(wall());  // sees the devices, whose types profiles are learnt for
  for (const control::Profile& p : scenario_.profiles)
    if (is_known(p)) SLUICE_TRY(control_->set_profile(p));
  SLUICE_ASSIGN(applied, control::Requests(*control_).apply(scenario_.functions, false, wall()));
  for (const control::Applied& a : applied) tallies_[a.function].counts.function = a.function;
  for (const FunctionSpec& spec : scenario_.functions) {
    FunctionOutcome& f = tallies_.at(spec.name).counts;
    f.objective = spec.inference().slo.latency;
    f.violations.assign(scenario_.slo_multiples.size(), 0);
    for (const control::Profile& p : scenario_.profiles)
      if (p.model == spec.model_on(p.device).path)
        truth_.learn({{.function = spec.name, .revision = 1, .variant = "", .device = p.device},
                      p.memory,
                      p.points});
  }
  return {};
}

// Returns whether the policies have that profile.
bool Play::is_known(const control::Profile& p) const {
  return std::ranges::none_of(scenario_.functions, [&](const FunctionSpec& spec) {
    const auto truth = scenario_.cluster.truths.find(spec.name);
    return p.model == spec.model_on(p.device).path && truth != scenario_.cluster.truths.end() &&
           !truth->second.profiled;
  });
}

// One tick of the control loop, and when the next one comes.
void Play::tick() {
  sample_use();
  control_->step(wall());
  decisions_ += static_cast<uint64_t>(control_->last_tick().decided);
  if (broken_.ok()) broken_ = cluster_.check();
  events_.at(clock_.now() + control_->next_step(), [this] { tick(); });
}

void Play::tick_door() {
  cluster_.tick();
  events_.at(clock_.now() + FrontDoor::kTick, [this] { tick_door(); });
}

void Play::arrive(size_t stream) {
  const auto next = streams_[stream].next();
  if (!next || *next >= scenario_.duration) return;
  events_.at(start_ + *next, [this, stream] {
    const Load& load = streams_[stream].load();
    Tally& tally = tallies_.at(load.function);
    tally.counts.requests += counting_;
    ++tally.row.arrivals;
    ++arrived_;
    cluster_.arrive(load.function, load.inferences);
    arrive(stream);
  });
}

void Play::answered(const Answer& a) {
  ++ended_;
  if (watch_.on_answer) watch_.on_answer(a);
  Tally& tally = tallies_.at(a.function);
  FunctionOutcome& f = tally.counts;
  const Nanos latency = a.ended - a.arrived;
  const bool ok = a.outcome == gateway::Outcome::kOk;
  const bool has_objective = f.objective > Nanos(0);
  tally.row.ok += ok;
  tally.row.late += ok && has_objective && latency > f.objective;
  tally.row.refused += a.outcome == gateway::Outcome::kShed;
  if (ok) tally.row_latencies.push_back(latency.count());
  if (!counting_ || a.arrived < counted_from_) return;
  ++tally.ended;
  f.ok += ok;
  f.shed += a.outcome == gateway::Outcome::kShed;
  f.timed_out += a.outcome == gateway::Outcome::kTimedOut;
  f.failed += a.outcome == gateway::Outcome::kFailed || a.outcome == gateway::Outcome::kBroken;
  if (ok) tally.latencies.push_back(latency.count());
  for (size_t k = 0; k < f.violations.size(); ++k) {
    const double bound = scenario_.slo_multiples[k] * static_cast<double>(f.objective.count());
    f.violations[k] += !ok || (has_objective && static_cast<double>(latency.count()) > bound);
  }
}

uint64_t Play::cold_starts(const FunctionName& f) const {
  const auto state = control_->functions().find(f);
  return state == control_->functions().end() ? 0 : state->second.traffic.totals().cold_starts;
}

void Play::begin_counting() {
  sample_use();
  counting_ = true;
  counted_from_ = clock_.now();
  busy_before_ = cluster_.busy_seconds();
  for (auto& [name, tally] : tallies_) {
    tally.before = std::as_const(*control_).accounting().of(name);
    tally.cold_before = cold_starts(name);
  }
}

// What was held since the last sample.
void Play::sample_use() {
  const double passed = seconds(clock_.now() - sampled_);
  if (counting_) {
    device_seconds_ += passed * use_.devices;
    free_area_ += passed * (use_.devices - static_cast<double>(use_.area) / 1e6);
    memory_there_ += passed * static_cast<double>(use_.memory_there);
    free_memory_ += passed * static_cast<double>(use_.memory_there - use_.memory);
  }
  sampled_ = clock_.now();
  use_ = cluster_.use();
  if (counting_) devices_max_ = std::max(devices_max_, use_.devices);
}

void Play::end_second() {
  const Nanos passed = clock_.now() - start_;
  std::map<FunctionName, SimulatedCluster::Held> held;
  if (watch_.on_row) held = cluster_.held();
  for (auto& [name, tally] : tallies_) {
    TimelineRow row = std::exchange(tally.row, {});
    std::vector<int64_t> latencies = std::exchange(tally.row_latencies, {});
    if (!watch_.on_row) continue;
    std::ranges::sort(latencies);
    row.second = passed / Seconds(1) - 1;
    row.function = name;
    row.p95 = quantile(latencies, 95);
    if (const auto h = held.find(name); h != held.end()) {
      row.instances = h->second.instances;
      row.ready = h->second.ready;
      row.area = h->second.area;
    }
    row.devices = cluster_.use().devices;
    watch_.on_row(row);
  }
  for (const ScenarioJob& job : scenario_.jobs) {
    const auto h = held.find(job.spec.name);
    if (!watch_.on_row || h == held.end()) continue;
    watch_.on_row({.second = passed / Seconds(1) - 1,
                   .function = job.spec.name,
                   .instances = h->second.instances,
                   .ready = h->second.ready,
                   .area = h->second.area,
                   .devices = cluster_.use().devices});
  }
  if (watch_.on_occupants) show_occupants(passed);
  if (broken_.ok()) broken_ = audit_.check(*control_, clock_.now());
  stopped_ = stopped_ || !watch_.on_second(done(passed));
  over_ = is_over();
  events_.at(clock_.now() + Seconds(1), [this] { end_second(); });
}

void Play::show_occupants(Nanos passed) {
  std::vector<Occupant> now;
  cluster_.each_instance([&](const control::ObservedInstance& o) {
    if (!control::alive(o)) return;
    const bool trains = training_.find(o.instance.function) != nullptr;
    for (const Part& p : o.instance.parts)
      now.push_back({o.node, p.device, served_name(o.instance.function), trains});
  });
  const auto& memories = std::as_const(*control_).memories();
  const auto loans = memories.find(policy::kLoanMemory);
  watch_.on_occupants(
      passed, now,
      loans == memories.end() ? std::set<std::string>() : policy::lent_nodes(loans->second));
}

// A training job arrives.
void Play::submit(const ScenarioJob& job) {
  const auto applied = control::Requests(*control_).apply({job.spec}, false, wall());
  if (!applied.ok() && broken_.ok()) broken_ = applied.error();
}

// Nothing more happens once every job is done and no request will come.
bool Play::is_over() const {
  return ends_with_jobs() && training_.part_finished() == 1;
}

double Play::done(Nanos passed) const {
  const double of_time = std::min(1.0, seconds(passed) / seconds(scenario_.duration));
  return ends_with_jobs() ? std::max(of_time, training_.part_finished()) : of_time;
}

void Play::happen(const Fault& f) {
  if (f.kind == Fault::Kind::kJumpClock) {
    clock_jumps_ += f.subject == "back" ? -f.by : f.by;
    return;
  }
  audit_.disturbed(clock_.now());
  cluster_.begin(f);
  if (f.lasts == Nanos(0)) return;
  events_.at(clock_.now() + f.lasts, [this, &f] {
    audit_.disturbed(clock_.now());
    cluster_.end(f);
  });
}

void Play::add_faults() {
  for (const Fault& f : scenario_.faults) events_.at(start_ + f.at, [this, &f] { happen(f); });
}

Result<Outcome> Play::run(const std::string& policy, const std::string& plan) {
  SLUICE_TRY(open(policy, plan));
  sampled_ = clock_.now();
  Random seeds(scenario_.seed);
  for (const Load& load : scenario_.loads) {
    const uint64_t drawn = seeds.next();
    streams_.emplace_back(load, load.seed.value_or(drawn));
  }
  events_.at(start_ + scenario_.settle, [this] { begin_counting(); });
  events_.at(start_, [this] { tick(); });
  if (!scenario_.functions.empty()) events_.at(start_, [this] { tick_door(); });
  events_.at(start_ + Seconds(1), [this] { end_second(); });
  add_faults();
  for (size_t k = 0; k < streams_.size(); ++k) arrive(k);
  for (const ScenarioJob& job : scenario_.jobs)
    events_.at(start_ + job.arrives, [this, &job] { submit(job); });
  const Time end = start_ + scenario_.duration;
  int64_t at_once = 0;  // events since time last went on
  while (events_.next() <= end && !stopped_ && !over_) {
    at_once = events_.next() == clock_.now() ? at_once + 1 : 0;
    if (at_once > kMostAtOnce) return Error{ErrorKind::kInternal, "invariant: time does not go on"};
    clock_.set(events_.next());
    events_.take()();
    if (!broken_.ok()) return broken_.error();
  }
  sample_use();
  if (arrived_ != ended_ + cluster_.open_requests())
    return Error{ErrorKind::kInternal, "invariant: " + std::to_string(arrived_) +
                                           " requests arrived, " + std::to_string(ended_) +
                                           " ended and " +
                                           std::to_string(cluster_.open_requests()) + " are open"};
  return outcome(played_as(policy, plan));
}

Outcome Play::outcome(const std::string& name) {
  Outcome o{.policy = name};
  o.simulated = counting_ ? clock_.now() - counted_from_ : Nanos(0);
  o.lasted = clock_.now() - start_;
  o.stopped = stopped_;
  o.device_seconds = device_seconds_;
  o.devices_max = devices_max_;
  o.free_share = device_seconds_ > 0 ? free_area_ / device_seconds_ : 0;
  o.free_memory = memory_there_ > 0 ? free_memory_ / memory_there_ : 0;
  const double whole = seconds(o.simulated) * static_cast<double>(scenario_.cluster.devices.size());
  o.utilisation = whole > 0 ? (cluster_.busy_seconds() - busy_before_) / whole : 0;
  for (const ScenarioJob& job : scenario_.jobs) {
    const SimulatedJob* arrived = training_.find(job.spec.name);
    if (arrived == nullptr) continue;
    o.jobs.push_back(outcome_of(job, arrived->record(), start_, clock_.now()));
    o.jobs.back().account = std::as_const(*control_).accounting().of(job.spec.name);
  }
  o.all_jobs = summary_of(o.jobs, o.lasted);
  o.decisions = decisions_;
  o.arbiter_steps = static_cast<uint64_t>(cluster_.arbiter_steps());
  for (auto& [name, tally] : tallies_) {
    FunctionOutcome& f = tally.counts;
    std::ranges::sort(tally.latencies);
    f.p50 = quantile(tally.latencies, 50);
    f.p90 = quantile(tally.latencies, 90);
    f.p95 = quantile(tally.latencies, 95);
    f.p99 = quantile(tally.latencies, 99);
    f.open = f.requests - tally.ended;
    f.cold_starts = cold_starts(name) - tally.cold_before;
    f.account = since(tally.before, std::as_const(*control_).accounting().of(name));
    o.functions.push_back(std::move(f));
  }
  return o;
}

}  // namespace

std::string played_as(const std::string& policy, const std::string& plan) {
  return plan.empty() ? policy : policy + "/" + plan;
}

Result<Outcome> simulate(const Scenario& scenario, const std::string& policy, const Watch& watch,
                         const std::string& plan) {
  for (const DevicePlan& d : scenario.cluster.devices)
    SLUICE_TRY(check_stepping(scenario.cluster.stepping, d.physics));
  return Play(scenario, watch).run(policy, plan);
}

}  // namespace sluice::sim
