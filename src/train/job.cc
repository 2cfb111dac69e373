#include "train/job.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace sluice::train {
namespace {

constexpr size_t kKeptReforms = 100;
constexpr size_t kKeptStragglers = 100;
constexpr size_t kMostUseful = 1000;
constexpr int64_t kMostGenerations = int64_t{1} << 40;
constexpr double kBetterBy = 1.05;                  // a batch is changed for so much more goodput
constexpr int64_t kMostSamples = int64_t{1} << 40;  // of an epoch
constexpr double kMostSeconds = 1e6;                // of a step
constexpr double kMostBytes = 1e12;                 // of its gradients
// The first steps of a group are slow: they compile. The profile has those that follow.
constexpr Nanos kFirstSteps = Seconds(1);
constexpr Nanos kStalledAfter = Seconds(10);  // without a step
constexpr Nanos kLongRun = Seconds(60);       // of a script that reports no steps: it did something

template <class... F>
struct Visitor : F... {
  using F::operator()...;
};
template <class... F>
Visitor(F...) -> Visitor<F...>;

}  // namespace

Job::Job(JobSettings settings, Time now)
    : settings_(std::move(settings)), added_(now), stopped_(now) {
  saved_ = settings_.resume;
  model_ = settings_.trained;
  if (settings_.finished) phase_ = JobPhase::kFinished;
  samples_ = settings_.samples;
  batch_ = settings_.batch.least;
  steps_ = settings_.steps ? settings_.steps : std::make_shared<StepHistory>();
  if (settings_.script) not_profiled_ = "a script's steps are not taken apart";
}

double Job::part_done() const {
  if (!progress_ || samples_ == 0) return 0;
  const double epoch = static_cast<double>(samples_),
               epochs = static_cast<double>(settings_.job.epochs);
  return (static_cast<double>(progress_->at.epoch) +
          static_cast<double>(progress_->at.sample) / epoch) /
         epochs;
}

void Job::expect(const std::string& worker, Time now) {
  expected_[worker] = {now, settings_.hello_patience};
}

void Job::expect_back(const std::string& worker, Time now) {
  if (!open() || workers_.contains(worker)) return;
  if (std::ranges::find(stragglers_, worker, &Straggler::worker) != stragglers_.end()) return;
  expected_.try_emplace(worker, Expected{now, settings_.return_patience});
}

bool Job::ended(const std::string& worker, const std::string& error, Time now) {
  expected_.erase(worker);
  const bool useful = useful_.erase(worker) > 0;
  if (!open() || error.empty()) return useful;
  if (samples_ == 0 && phase_ == JobPhase::kRunning && now - progressed_ >= kLongRun) failures_ = 0;
  if (++failures_ < kMostFailures) return useful;
  phase_ = JobPhase::kPaused;
  trouble_ = std::to_string(failures_) + " workers ended without progress, the last one: " + error;
  return useful;
}

double Job::learning_rate() const {
  if (progress_ && progress_->learning_rate > 0) return progress_->learning_rate;
  if (settings_.script) return 0;
  return settings_.job.learning_rate * batch_ / std::max(1, settings_.job.batch);
}

bool Job::stalled(Time now) const {
  if (phase_ != JobPhase::kRunning || samples_ == 0) return false;
  const double step = progress_ ? progress_->step_seconds : 0;
  return now - progressed_ > std::max(kStalledAfter, Nanos(static_cast<int64_t>(3e9 * step)));
}

// ---- what workers say --------------------------------------------------------------------------

Job::Out Job::hello(const Hello& h, Time now) {
  const auto refuse = [&](std::string why) {
    send(h.worker, Refused{std::move(why)});
    return take();
  };
  if (h.version != kProtocolVersion)
    return refuse("speaks version " + std::to_string(h.version) + " of the protocol; " +
                  std::to_string(kProtocolVersion) + " is spoken here");
  if (workers_.contains(h.worker)) return refuse("a worker named " + h.worker + " is here already");
  if (const auto late = std::ranges::find(stragglers_, h.worker, &Straggler::worker);
      late != stragglers_.end())
    return refuse("was given up: " + late->why);
  if (h.generation > kMostGenerations)
    return refuse("generation: " + std::to_string(h.generation) + " was never formed");
  if (!open())
    return refuse(
        "the job " +
        std::string(phase_ == JobPhase::kFinished ? "has finished" : "goes no further: ") +
        trouble_);
  expected_.erase(h.worker);
  workers_[h.worker] = {.since = now, .step = h.step};
  generation_ = std::max(generation_, h.generation);
  Welcome welcome = settings_.job;
  send(h.worker, std::move(welcome));
  return take();
}

void Job::place(const std::string& worker, std::string node) {
  if (const auto found = workers_.find(worker); found != workers_.end())
    found->second.node = std::move(node);
}

Job::Out Job::receive(const std::string& worker, const WorkerMessage& m, Time now) {
  if (!workers_.contains(worker)) return {};
  on(worker, m, now);
  settle(now);
  return take();
}

void Job::on(const std::string& name, const WorkerMessage& message, Time now) {
  Worker& w = workers_.at(name);
  const Visitor take_in{
      [](const Hello&) {},
      [&](const Loaded& m) {
        if (m.samples < 0 || m.samples > kMostSamples)
          return send(name, Refused{"samples: " + std::to_string(m.samples) + " is not in 0 … " +
                                    std::to_string(kMostSamples)});
        if (samples_ != 0 && m.samples != samples_)
          return send(name, Refused{"reads " + std::to_string(m.samples) + " samples; the others " +
                                    std::to_string(samples_)});
        samples_ = m.samples;
        if (w.state == State::kLoading) change(w, State::kIdle, now);
      },
      [&](const Stopped& m) { on_stopped(w, m, now); },
      [&](const Progress& m) { on_progress(m, now); },
      [&](const Profiled& m) { on_profiled(name, m, now); },
      [&](const Saved& m) {
        if (possible(m.at)) saved_ = m;
        if (w.state == State::kSaving) change(w, State::kParting, now);
      },
      [&](const Leaving&) { w.leaving = true; },
      [&](const Finished& m) {
        model_ = m.model;
        if (open()) phase_ = JobPhase::kFinished;
      },
      [&](const Failed& m) {
        if (!open()) return;
        trouble_ = m.error;
        phase_ = m.for_good ? JobPhase::kFailed : JobPhase::kPaused;
      },
      [&](const StoreSet& m) { on_set(name, m); },
      [&](const StoreGet& m) { on_get(name, m); },
      [](const Pong&) {},
  };
  std::visit(take_in, message);
}

void Job::on_stopped(Worker& w, const Stopped& m, Time now) {
  if (w.state != State::kMember || m.generation != generation_) return;
  change(w, State::kIdle, now);
  w.step = m.step;
  // Its connections to the others failed before the kernel told of one's end, or without any end.
  if (m.why == "lost" && !halting_ && open()) halt("crash", now);
}

bool Job::possible(const JobPosition& at) const {
  return at.step >= 0 && at.epoch >= 0 && at.epoch <= settings_.job.epochs && at.sample >= 0 &&
         at.sample <= samples_;
}

void Job::on_progress(const Progress& m, Time now) {
  const bool measured = m.step_seconds >= 0 && m.step_seconds < kMostSeconds && m.wait_seconds >= 0;
  if (m.generation != generation_ || !possible(m.at) || !measured) return;
  progress_ = m;
  reported_ = progressed_ = now;
  if (m.at.step > furthest_ && samples_ > 0) failures_ = 0;
  furthest_ = std::max(furthest_, m.at.step);
  // Whether they were is asked only of those that end by themselves.
  if (useful_.size() > kMostUseful)
    std::erase_if(useful_, [&](const auto& name) { return !workers_.contains(name); });
  useful_.insert(members_.begin(), members_.end());
  if (m.batch > 0) batch_ = m.batch;
  if (m.noise > 0) noise_ = m.noise;
  steps_->add_noise(part_done(), m.noise);
  if (halting_) return;
  if (!first_step_missing_) {
    if (now - first_step_ >= kFirstSteps)
      steps_->add(size_of(members_), m.batch, m.step_seconds, m.wait_seconds);
    return adapt(now);
  }
  first_step_missing_ = false;
  first_step_ = now;
  adapted_ = now;
  next_.forming = now - stopped_;
  reforms_.push_back(next_);
  if (reforms_.size() > kKeptReforms) reforms_.erase(reforms_.begin());
}

void Job::on_profiled(const std::string& name, const Profiled& m, Time now) {
  const auto sum = [](const std::vector<double>& all) {
    return std::accumulate(all.begin(), all.end(), 0.0);
  };
  const bool possible = m.batch > 0 && m.steps > 0 && m.compute_seconds < kMostSeconds &&
                        m.optimizer_seconds < kMostSeconds && sum(m.sum_seconds) < kMostSeconds &&
                        sum(m.bytes) < kMostBytes && profiled_ < generation_;
  if (m.generation != generation_ || halting_ || !possible) return;
  if (members_.empty() || members_.front() != name) return;
  GroupProfile p{.workers = size_of(members_),
                 .batch = m.batch,
                 .steps = m.steps,
                 .bytes = m.bytes,
                 .sum_seconds = m.sum_seconds,
                 .at = now};
  p.step = {p.local_batch(), m.ready_seconds, m.compute_seconds, m.optimizer_seconds};
  profiled_ = generation_;  // one of each group
  steps_->add_profile(std::move(p));
  not_profiled_.clear();
}

bool Job::measures_first() const {
  return open() && not_profiled_.empty() && !steps_->model();
}

void Job::on_set(const std::string& name, const StoreSet& m) {
  const auto refuse = [&](const std::string& what, size_t most) {
    send(name, Refused{"the store takes " + what + " of at most " + std::to_string(most)});
  };
  const auto before = store_.find(m.key);
  const size_t freed = before == store_.end() ? 0 : m.key.size() + before->second.size();
  const size_t stored = stored_ - freed + m.key.size() + m.value.size();
  if (m.key.size() > kLongestKey) return refuse("keys", kLongestKey);
  if (m.value.size() > kLongestValue) return refuse("values", kLongestValue);
  if (stored > kMostStored) return refuse("a generation's keys and values", kMostStored);
  if (freed == 0 && store_.size() >= kMostKeys) return refuse("a number of keys", kMostKeys);
  stored_ = stored;
  store_[m.key] = m.value;
  const auto [first, last] = store_waiting_.equal_range(m.key);
  for (auto w = first; w != last; ++w) send(w->second, StoreValue{m.key, m.value});
  store_waiting_.erase(first, last);
}

void Job::on_get(const std::string& name, const StoreGet& m) {
  const auto found = store_.find(m.key);
  if (found != store_.end()) return send(name, StoreValue{m.key, found->second});
  if (m.key.size() > kLongestKey || store_waiting_.size() >= kMostWaiting)
    return send(
        name, Refused{"the store answers at most " + std::to_string(kMostWaiting) +
                      " questions at once, of at most " + std::to_string(kLongestKey) + " bytes"});
  store_waiting_.emplace(m.key, name);
}

Job::Out Job::closed(const std::string& worker, Time now) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return {};
  const bool member = found->second.state == State::kMember;
  workers_.erase(found);
  for (auto w = store_waiting_.begin(); w != store_waiting_.end();)
    w = w->second == worker ? store_waiting_.erase(w) : std::next(w);
  if (member && open()) {
    if (!halting_) {
      halt("crash", now);
      ++next_.before;
    }
    next_.why = "crash";
  }
  settle(now);
  return take();
}

Job::Out Job::tick(Time now) {
  ticked_ = now;
  give_up_expected(now);
  give_up_hung(now);
  for (auto& [name, w] : workers_)
    if (w.state == State::kSaving && now - w.since >= settings_.save_patience)
      change(w, State::kParting, now);
  settle(now);
  return take();
}

// Those that never say hello: their command does not join, or does not even run; or they are
// stopped.
void Job::give_up_expected(Time now) {
  std::string late;
  for (auto e = expected_.begin(); e != expected_.end();) {
    const auto [since, patience] = e->second;
    const bool over = now - since >= patience;
    if (over) late = " for " + std::to_string(patience / Seconds(1)) + " s";
    if (over) drop(e->first, "has not joined" + late);
    e = over ? expected_.erase(e) : std::next(e);
  }
  if (late.empty() || !expected_.empty() || !workers_.empty() || generation_ > 0 || !open()) return;
  phase_ = JobPhase::kPaused;
  trouble_ = "no worker has joined" + late;
}

// A member is in a step, or hangs in one. Once another has lost the group, the sums of that step
// fail as well, so that it should have stopped.
void Job::give_up_hung(Time now) {
  const auto patience = hung_after();
  if (!patience || now - halted_ < *patience) return;
  for (const std::string& name : members_) {
    const auto w = workers_.find(name);
    if (w == workers_.end() || w->second.state != State::kMember) continue;
    std::string why = "has not left its group for " + std::to_string(*patience / Seconds(1)) +
                      " s since another worker lost it";
    send(name, Refused{"was given up: " + why});
    drop(name, std::move(why));
    workers_.erase(w);
  }
}

// nullopt: none is waited for.
std::optional<Nanos> Job::hung_after() const {
  if (!halting_ || next_.why != "crash" || workers() == 0) return std::nullopt;
  const double step = progress_ ? progress_->step_seconds : 0;
  return std::max(settings_.stop_patience, Nanos(static_cast<int64_t>(3e9 * step)));
}

void Job::drop(const std::string& worker, std::string why) {
  stragglers_.push_back({worker, std::move(why)});
  if (stragglers_.size() > kKeptStragglers) stragglers_.erase(stragglers_.begin());
}

Job::Out Job::give_up(const std::string& worker, std::string why, Time now) {
  if (!workers_.contains(worker)) return {};
  drop(worker, std::move(why));
  return closed(worker, now);
}

std::optional<Time> Job::next_tick() const {
  std::optional<Time> next;
  const auto at_latest = [&](Time t) {
    if (t > ticked_) next = next ? std::min(*next, t) : t;
  };
  for (const auto& [name, e] : expected_) {
    at_latest(e.since + settings_.join_patience);
    at_latest(e.since + e.patience);
  }
  for (const auto& [name, w] : workers_) {
    if (w.state == State::kLoading) at_latest(w.since + settings_.join_patience);
    if (w.state == State::kSaving) at_latest(w.since + settings_.save_patience);
  }
  if (const auto patience = hung_after()) at_latest(halted_ + *patience);
  return next;
}

// ---- the batch ---------------------------------------------------------------------------------

// Returns the batch with the best goodput of so many workers, if it is clearly better than the
// present one. Until steps and the noise scale were measured, the present one stays.
int Job::choose_batch(const Workers& workers) {
  const int now = std::max(batch_, settings_.batch.least);
  const std::optional<StepModel>& model = steps_->model();
  const double phi = noise();
  if (settings_.batch.most <= settings_.batch.least || !model || phi <= 0) return now;
  const auto goodput = [&](int batch) {
    const double local = std::ceil(static_cast<double>(batch) / workers.count);
    return batch / step_seconds(*model, workers, local) *
           efficiency(phi, batch, settings_.batch.least);
  };
  const BatchChoice best = best_batch(*model, workers, phi, settings_.batch);
  if (best.batch == 0 || best.batch == now || best.goodput < kBetterBy * goodput(now)) return now;
  char text[160];
  std::snprintf(text, sizeof text,
                "Of %d workers at noise scale %.0f, %d has %.2f times the goodput of %d.",
                workers.count, phi, best.batch, best.goodput / goodput(now), now);
  batch_reason_ = text;
  return best.batch;
}

void Job::adapt(Time now) {
  if (halting_ || now - adapted_ < settings_.adapt_every) return;
  adapted_ = now;
  const int batch = choose_batch(size_of(members_));
  if (batch != batch_) send(members_.front(), Adapt{batch});  // rank 0 tells the others
}

// ---- the generation ----------------------------------------------------------------------------

// Those that should be the members, the newest parameters first: rank 0 hands its own to the
// others.
std::vector<std::string> Job::wanted() const {
  std::vector<std::string> names;
  if (!open()) return names;
  for (const auto& [name, w] : workers_)
    if (!w.leaving && (w.state == State::kIdle || w.state == State::kMember)) names.push_back(name);
  const auto before = [&](const std::string& a, const std::string& b) {
    const Worker &wa = workers_.at(a), &wb = workers_.at(b);
    const bool ma = wa.state == State::kMember, mb = wb.state == State::kMember;
    if (ma != mb) return ma;
    return wa.step != wb.step ? wa.step > wb.step : a < b;
  };
  std::sort(names.begin(), names.end(), before);
  if (settings_.max_workers > 0 && static_cast<int>(names.size()) > settings_.max_workers)
    names.resize(static_cast<size_t>(settings_.max_workers));
  return names;
}

bool Job::any(State s) const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [&](const auto& w) { return w.second.state == s; });
}

bool Job::still_loading(Time now) const {
  if (std::ranges::any_of(
          expected_, [&](const auto& e) { return now - e.second.since < settings_.join_patience; }))
    return true;
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& w) {
    return w.second.state == State::kLoading && now - w.second.since < settings_.join_patience;
  });
}

int64_t Job::newest_step() const {
  int64_t newest = -1;
  for (const auto& [name, w] : workers_) newest = std::max(newest, w.step);
  return newest;
}

int Job::workers() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [](const auto& w) {
    return w.second.state == State::kMember;
  }));
}

Workers Job::size_of(const std::vector<std::string>& group) const {
  std::set<std::string> nodes;
  for (const std::string& name : group) {
    const auto worker = workers_.find(name);
    nodes.insert(worker != workers_.end() ? worker->second.node : "");
  }
  return {.count = static_cast<int>(group.size()), .nodes = static_cast<int>(nodes.size())};
}

void Job::settle(Time now) {
  const std::vector<std::string> names = wanted();
  const int members = workers();
  if (members > 0 && !halting_) {
    const auto is_member = [&](const std::string& n) {
      return workers_.at(n).state == State::kMember;
    };
    const auto staying = std::count_if(names.begin(), names.end(), is_member);
    if (staying < members) return halt("leave", now);
    if (static_cast<int>(names.size()) > members && !still_loading(now)) halt("join", now);
    return;
  }
  if (members > 0) return;  // until all have stopped
  if (halting_) stopped_ = now;
  halting_ = false;
  part(now);
  if (static_cast<int>(names.size()) < std::max(1, settings_.min_workers)) return;
  if (any(State::kSaving) || (generation_ == 0 && still_loading(now))) return;
  form(names, now);
}

void Job::halt(std::string why, Time now) {
  halting_ = true;
  halted_ = now;
  if (why == "crash" && measures_first())
    not_profiled_ = "the first group lost a worker before its steps were measured";
  next_ = {.before = workers(), .why = std::move(why)};
  for (const auto& [name, w] : workers_)
    if (w.state == State::kMember) send(name, Halt{generation_});
}

// Sends away those that are not to be members. The last one with the newest parameters saves them.
void Job::part(Time now) {
  const int64_t newest = newest_step();
  bool kept = newest < 0 || (saved_ && saved_->at.step >= newest) || !model_.empty();
  for (const auto& [name, w] : workers_)
    if (w.step == newest &&
        ((w.state == State::kIdle && !w.leaving && open()) || w.state == State::kSaving))
      kept = true;
  for (auto& [name, w] : workers_) {
    if (w.state != State::kIdle && w.state != State::kLoading) continue;
    if (open() && !w.leaving) continue;
    const bool saves = !kept && w.step == newest;
    kept = kept || saves;
    change(w, saves ? State::kSaving : State::kParting, now);
    send(name, Leave{saves});
  }
}

void Job::form(const std::vector<std::string>& names, Time now) {
  ++generation_;
  members_ = names;
  store_.clear();
  stored_ = 0;
  store_waiting_.clear();
  phase_ = JobPhase::kRunning;
  progressed_ = now;
  first_step_missing_ = true;
  const int world = static_cast<int>(names.size());
  const int64_t newest = workers_.at(names.front()).step;
  bool differ = newest < 0 && world > 1;
  for (const std::string& n : names) differ = differ || workers_.at(n).step != newest;
  batch_ = std::max(choose_batch(size_of(names)), world);
  next_.generation = generation_;
  next_.after = world;
  next_.stopping = next_.why == "start" ? Nanos(0) : stopped_ - halted_;
  stopped_ = now;
  for (int rank = 0; rank < world; ++rank) {
    Worker& w = workers_.at(names[static_cast<size_t>(rank)]);
    change(w, State::kMember, now);
    Form f{generation_, rank, world, batch_, differ, ""};
    if (rank == 0 && newest < 0 && saved_) f.resume = saved_->path;
    send(names[static_cast<size_t>(rank)], std::move(f));
  }
}

JobStatus status_of(const Job& job) {
  JobStatus s;
  s.phase = job.phase();
  s.trouble = job.trouble();
  s.samples = job.samples();
  s.epochs = job.settings().job.epochs;
  s.workers = job.workers();
  s.generation = job.generation();
  s.batch = job.batch();
  s.learning_rate = job.learning_rate();
  s.base_batch = job.settings().job.batch;
  s.noise = job.noise();
  s.step = job.step_model();
  if (job.profile() != nullptr) s.profile = *job.profile();
  s.profiled = job.profiled();
  s.planned_by_profile = job.planned_by_profile();
  s.not_profiled = job.not_profiled();
  s.measures_first = job.measures_first();
  s.progress = job.progress();
  s.reported = job.reported();
  s.checkpoint = job.newest_checkpoint();
  s.model = job.model();
  s.stragglers = job.stragglers();
  return s;
}

}  // namespace sluice::train
