#include "runtime/runner.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

#include "runtime/batch.h"

namespace sluice::runtime {

Runner::Runner(Model& model, Gate& gate, const Batching& batching, int threads, const Clock& clock,
               Statistics& statistics)
    : model_(model),
      gate_(gate),
      clock_(clock),
      statistics_(statistics),
      batch_(batching.max_size),
      batcher_(batching),
      threads_(threads),
      thread_([this] { loop(); }) {}

Runner::~Runner() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Runner::submit(Work work) {
  {
    const std::lock_guard lock(mutex_);
    const Time now = clock_.now();
    const uint64_t ticket = ++last_ticket_;
    const Time due = work.time_left ? now + *work.time_left : Time::max();
    batcher_.add({ticket, work.inferences, work.key, work.more, now});
    pending_.emplace(ticket, Pending{std::move(work), now, due});
    due_.insert(due);
    tell_due();
  }
  changed_.notify_one();
}

// Reports the earliest due time to the arbiter, of waiting and running work.
void Runner::tell_due() {
  gate_.hint_due(due_.empty() ? Time::max() : *due_.begin());
}

void Runner::set_threads(int threads) {
  const std::lock_guard lock(mutex_);
  threads_ = threads;
}

void Runner::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::vector<Pending> batch = next_batch(lock);
    if (batch.empty()) return;
    const int threads = threads_;
    lock.unlock();
    use_threads(threads);
    run(std::move(batch));
    lock.lock();
  }
}

// As many as the slice has cores; the page is the first to show a change.
void Runner::use_threads(int told) {
  const int threads = gate_.cores() > 0 ? gate_.cores() : told;
  if (std::exchange(used_threads_, threads) != threads) model_.set_threads(threads);
}

// Waits until a batch may start. Returns an empty one when stopping with no work left.
std::vector<Runner::Pending> Runner::next_batch(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    // When stopping, do not wait for others to join.
    const Batcher::Next next = batcher_.next(stopping_ ? Time::max() : clock_.now());
    if (!next.batch.empty()) {
      std::vector<Pending> batch;
      for (const uint64_t ticket : next.batch)
        batch.push_back(std::move(pending_.extract(ticket).mapped()));
      return batch;
    }
    if (stopping_) return {};
    gate_.rest();
    if (next.wake == Time::max())
      changed_.wait(lock);
    else
      changed_.wait_for(lock, next.wake - clock_.now());
  }
}

void Runner::run(std::vector<Pending> batch) {
  const Time began = clock_.now();
  auto outcome = execute(batch);
  if (!outcome.ok() && batch.size() > 1) {
    for (Pending& p : batch) {
      std::vector<Pending> alone;
      alone.push_back(std::move(p));
      run(std::move(alone));
    }
    return;
  }
  for (size_t i = 0; i < batch.size(); ++i)
    answer(batch[i], outcome.ok() ? Result<Computed>(std::move((*outcome)[i])) : outcome.error(),
           began);
}

// One answer of a batch reports its execution.
Result<std::vector<Computed>> Runner::execute(const std::vector<Pending>& batch) {
  std::vector<Computed> answers;
  if (batch.size() == 1 && batch[0].work.inferences > batch_) {
    SLUICE_ASSIGN(computed, execute_in_parts(batch[0].work));
    answers.push_back(std::move(computed));
    return answers;
  }
  std::vector<const std::vector<Tensor>*> parts;
  std::vector<int> rows;
  for (const Pending& p : batch) {
    parts.push_back(&p.work.inputs);
    rows.push_back(p.work.inferences);
  }
  const Time begin = clock_.now();
  std::vector<Tensor> joined;
  if (batch.size() > 1) joined = join(parts);
  const Time ready = clock_.now();
  auto outputs = model_.run(batch.size() > 1 ? joined : batch[0].work.inputs, &gate_);
  const Time ran = clock_.now();
  if (!outputs.ok()) return outputs.error();
  const int inferences = std::accumulate(rows.begin(), rows.end(), 0);
  gate_.hint_iteration(ran - ready, inferences);

  if (batch.size() == 1) {
    answers.push_back({std::move(*outputs), {}});
  } else {
    SLUICE_ASSIGN(cut, split(std::move(*outputs), rows));
    for (std::vector<Tensor>& each : cut) answers.push_back({std::move(each), {}});
  }
  wire::ComputeReport::Part part{inferences, 1, ready - begin, ran - ready, clock_.now() - ran};
  for (Computed& a : answers) {
    a.report.parts.push_back(part);
    part.executions = 0;
  }
  return answers;
}

Result<Computed> Runner::execute_in_parts(const Work& work) {
  const std::vector<int> rows = rows_of_parts(work.inferences, batch_);
  Computed computed;
  std::vector<wire::ComputeReport::Part>& report = computed.report.parts;
  const Time begin = clock_.now();
  SLUICE_ASSIGN(parts, split(work.inputs, rows));
  Time ready = clock_.now();
  const Nanos input = ready - begin;
  std::vector<std::vector<Tensor>> outputs;
  for (size_t i = 0; i < parts.size(); ++i) {
    auto ran = model_.run(parts[i], &gate_);
    if (!ran.ok()) return ran.error();
    outputs.push_back(std::move(*ran));
    const Time ended = clock_.now();
    const Nanos infer = ended - std::exchange(ready, ended);
    gate_.hint_iteration(infer, rows[i]);
    if (report.empty() || report.back().batch != rows[i]) report.push_back({.batch = rows[i]});
    ++report.back().executions;
    report.back().infer += infer;
  }
  SLUICE_ASSIGN(joined, join_outputs(outputs, rows));
  computed.outputs = std::move(joined);
  report.front().input = input;
  report.back().output = clock_.now() - ready;
  return computed;
}

void Runner::answer(Pending& pending, Result<Computed> outcome, Time began) {
  const Nanos whole = clock_.now() - pending.arrived;
  if (outcome.ok()) {
    outcome->report.queue = began - pending.arrived;
    statistics_.succeeded(pending.work.inferences, whole, outcome->report.queue, outcome->report,
                          unix_now());
  } else {
    statistics_.failed(whole);
  }
  {
    const std::lock_guard lock(mutex_);
    due_.erase(due_.find(pending.due));
    tell_due();
  }
  pending.work.done(std::move(outcome));
}

}  // namespace sluice::runtime
