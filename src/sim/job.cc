#include "sim/job.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace sluice::sim {
namespace {

// Between two reports of rank 0. The controller changes the batch no more often.
constexpr Nanos kReportEvery = Seconds(10);
constexpr double kReportGrid = 1e-6;  // seconds: the last digits of a measured step do not matter

template <class... F>
struct Receiver : F... {
  using F::operator()...;
};
template <class... F>
Receiver(F...) -> Receiver<F...>;

train::JobSettings controller_of(const FunctionSpec& spec,
                                 std::shared_ptr<train::StepHistory> steps) {
  const TrainingSpec& t = spec.training();
  train::JobSettings s{.name = served_name(spec.name)};
  s.job = {.epochs = t.epochs,
           .batch = t.batch.least,
           .learning_rate = t.learning_rate > 0 ? t.learning_rate : 0.01};
  s.min_workers = t.min_workers;
  s.batch = t.batch;
  s.steps = std::move(steps);
  return s;
}

// Longer times would overflow.
Nanos nanos(double seconds) {
  return Nanos(std::llround(std::min(seconds, 1e9) * 1e9));
}

double on_grid(double seconds) {
  return std::round(seconds / kReportGrid) * kReportGrid;
}

}  // namespace

SimulatedJob::SimulatedJob(const ScenarioJob& plan, const JobPhysics& physics, WorkerNode& node,
                           const Clock& clock, EventQueue& events,
                           std::shared_ptr<train::StepHistory> steps)
    : plan_(plan),
      physics_(physics),
      node_(node),
      clock_(clock),
      events_(events),
      controller_(controller_of(plan.spec, std::move(steps)), clock.now()),
      counted_(clock.now()) {}

// ---- between the controller and its workers ----------------------------------------------------

void SimulatedJob::send(const std::vector<train::Outgoing>& out) {
  status_stale_ = true;
  for (const train::Outgoing& o : out)
    events_.at(now(), [this, o] { receive(o.worker, o.message); });
  wake();
}

void SimulatedJob::say(const InstanceId& worker, const train::WorkerMessage& message) {
  send(controller_.receive(worker, message, now()));
}

void SimulatedJob::wake() {
  const std::optional<Time> next = controller_.next_tick();
  if (!next || (wake_ > now() && wake_ <= *next)) return;
  wake_ = std::max(*next, now());
  events_.at(wake_, [this, at = wake_] {
    if (wake_ != at) return;
    wake_ = Time::max();
    send(controller_.tick(now()));
  });
}

void SimulatedJob::receive(const InstanceId& worker, const train::ControllerMessage& message) {
  if (!workers_.contains(worker)) return;
  const Receiver take_in{
      [](const train::Welcome&) {},
      [](const train::StoreValue&) {},
      [&](const train::Form& m) { form(worker, m); },
      [&](const train::Halt& m) { halt(worker, m); },
      [&](const train::Adapt& m) { next_batch_ = m.batch; },
      [&](const train::Leave& m) { leave(worker, m.save); },
      [&](const train::Ping&) {
        events_.at(now(), [this, worker] {
          if (workers_.contains(worker)) say(worker, train::Pong{});
        });
      },
      [&](const train::Refused&) { leave(worker, false); },
  };
  std::visit(take_in, message);
}

void SimulatedJob::started(const Instance& worker, const std::string& node) {
  count_workers();
  workers_[worker.id] = {.node = node};
  if (!record_.first_start) record_.first_start = now();
  record_.most_workers = std::max(record_.most_workers, static_cast<int>(workers_.size()));
  send(controller_.hello({.job = plan_.spec.name.name, .worker = worker.id}, now()));
  controller_.place(worker.id, node);
}

void SimulatedJob::ready(const InstanceId& worker) {
  say(worker, train::Loaded{.samples = plan_.model.samples});
}

void SimulatedJob::asked_to_end(const InstanceId& worker) {
  if (!workers_.contains(worker)) return;
  if (workers_.at(worker).member) return say(worker, train::Leaving{});
  events_.at(now(), [this, worker] { node_.end_worker(worker); });
}

// The others fail in their sums, and stop once their devices have nothing more of theirs to do.
void SimulatedJob::gone(const InstanceId& worker) {
  count_workers();
  workers_.erase(worker);
  const bool member = std::ranges::find(group_, worker) != group_.end();
  if (member && state_ != State::kStopped) {
    ++plans_;
    state_ = State::kStopped;
    if (halting_) stop_all();
  }
  send(controller_.closed(worker, now()));
}

void SimulatedJob::leave(const InstanceId& worker, bool save) {
  if (save) say(worker, train::Saved{.at = position(), .path = "checkpoint"});
  node_.end_worker(worker);
}

// ---- the generation ----------------------------------------------------------------------------

void SimulatedJob::later(Time when, void (SimulatedJob::*what)()) {
  events_.at(when, [this, what, plan = ++plans_] {
    if (plan == plans_) (this->*what)();
  });
}

void SimulatedJob::form(const InstanceId& worker, const train::Form& m) {
  if (m.generation != generation_) {
    generation_ = m.generation;
    last_group_ = std::exchange(group_, std::vector<InstanceId>(static_cast<size_t>(m.world)));
    formed_ = 0;
    halting_ = false;
    next_batch_ = m.batch;
    step_ = 0;
    reported_.reset();
  }
  group_[static_cast<size_t>(m.rank)] = worker;
  Worker& w = workers_.at(worker);
  w.member = true;
  w.stopped = false;
  if (++formed_ < m.world) return;
  ++record_.generations;
  const bool joins = std::ranges::any_of(group_, [&](const InstanceId& id) {
    return std::ranges::find(last_group_, id) == last_group_.end();
  });
  state_ = State::kForming;
  later(now() + (joins ? physics_.join : physics_.leave), &SimulatedJob::begin_round);
}

void SimulatedJob::halt(const InstanceId& worker, const train::Halt& m) {
  if (m.generation != generation_) return;
  halting_ = true;
  if (state_ == State::kForming) {
    ++plans_;
    state_ = State::kStopped;
  }
  if (state_ == State::kStopped) stop(worker);
}

void SimulatedJob::stop(const InstanceId& worker) {
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.computes) return;
  if (!std::exchange(found->second.stopped, true))
    say(worker, train::Stopped{generation_, steps_, "halted"});
}

void SimulatedJob::stop_all() {
  state_ = State::kStopped;
  for (const InstanceId& id : std::vector(group_)) stop(id);
}

// ---- rounds ------------------------------------------------------------------------------------

double SimulatedJob::total() const {
  return static_cast<double>(plan_.model.samples) * plan_.spec.training().epochs;
}

double SimulatedJob::efficiency_now() const {
  return efficiency(noise_at(plan_.model, done_ / total()), batch_,
                    plan_.spec.training().batch.least);
}

void SimulatedJob::begin_round() {
  if (std::exchange(batch_, next_batch_) != next_batch_) step_ = 0;
  const int count = static_cast<int>(group_.size());
  const double local = std::ceil(static_cast<double>(batch_) / count);
  const double computing = step_seconds(plan_.model.step, {}, local);
  const double gain = batch_ * (physics_.by_goodput ? efficiency_now() : 1);
  const double left = std::ceil((total() - done_) / gain - 1e-9);
  const double step = step_ > 0 ? step_ : step_seconds(plan_.model.step, {.count = count}, local);
  const double wanted = std::floor(seconds(physics_.round) / std::max(step, 1e-9));
  round_steps_ = static_cast<int64_t>(std::clamp(wanted, 1.0, std::max(left, 1.0)));
  round_began_ = now();
  if (!record_.began) record_.began = now();
  state_ = State::kComputing;
  round_waits_for_ = count;
  for (const InstanceId& id : group_) {
    workers_.at(id).computes = true;
    node_.compute(id, std::max(nanos(computing * static_cast<double>(round_steps_)), Nanos(1)));
  }
}

void SimulatedJob::computed(const InstanceId& worker) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  found->second.computes = false;
  if (state_ != State::kComputing) {
    if (halting_) stop(worker);  // its round has failed
    return;
  }
  const double each = seconds(now() - round_began_) / static_cast<double>(round_steps_);
  if (worker == group_.front()) computes_ = each;
  if (--round_waits_for_ > 0) return;
  std::set<std::string> nodes;
  for (const InstanceId& id : group_) nodes.insert(workers_.at(id).node);
  const int count = static_cast<int>(group_.size());
  const double local = std::ceil(static_cast<double>(batch_) / count);
  const double alone = step_seconds(plan_.model.step, {}, local);
  step_ = step_seconds(plan_.model.step,
                       {.count = count,
                        .nodes = static_cast<int>(nodes.size()),
                        .speed = alone / std::max(each, 1e-9)},
                       local);
  state_ = State::kSumming;
  const Time end = round_began_ + nanos(step_ * static_cast<double>(round_steps_));
  later(std::max(end, now()), &SimulatedJob::end_round);
}

void SimulatedJob::end_round() {
  const double efficiency = efficiency_now(), gain = physics_.by_goodput ? efficiency : 1;
  const double left = (total() - done_) / gain;  // fewer samples than a step has, behind the last
  const double samples =
      std::min(static_cast<double>(batch_) * static_cast<double>(round_steps_), left);
  steps_ += round_steps_;
  done_ += samples * gain;
  record_.samples += samples;
  record_.learned += samples * efficiency;
  if (group_.size() > 1 || noise_ > 0) noise_ = noise_at(plan_.model, done_ / total());
  state_ = State::kStopped;
  const bool all = done_ >= total() * (1 - 1e-12);
  if (all || !reported_ || now() - *reported_ >= kReportEvery) report();
  if (all) {
    done_ = total();
    count_workers();
    record_.finished = now();
    say(group_.front(), train::Finished{steps_, "trained"});
    return halting_ ? stop_all() : void();
  }
  if (halting_) return stop_all();
  begin_round();
}

// To the controller, as rank 0.
void SimulatedJob::report() {
  reported_ = now();
  say(group_.front(), train::Progress{.generation = generation_,
                                      .at = position(),
                                      .batch = batch_,
                                      .step_seconds = on_grid(step_),
                                      .wait_seconds = on_grid(std::max(step_ - computes_, 0.0)),
                                      .samples_per_second = batch_ / step_,
                                      .noise = noise_});
}

train::JobPosition SimulatedJob::position() const {
  const auto done = static_cast<int64_t>(done_);
  return {steps_, done / plan_.model.samples, done % plan_.model.samples};
}

// ---- what is reported --------------------------------------------------------------------------

void SimulatedJob::count_workers() {
  if (!record_.finished)
    record_.worker_seconds += seconds(now() - counted_) * static_cast<double>(workers_.size());
  counted_ = now();
}

JobRecord SimulatedJob::record() const {
  JobRecord r = record_;
  if (r.finished) return r;
  r.worker_seconds += seconds(now() - counted_) * static_cast<double>(workers_.size());
  return r;
}

const train::JobStatus& SimulatedJob::status() {
  if (!std::exchange(status_stale_, false)) return status_;
  status_ = status_of(controller_);
  if (const auto& reforms = controller_.reforms(); !reforms.empty())
    status_.reforms = {reforms.back()};
  return status_;
}

}  // namespace sluice::sim
