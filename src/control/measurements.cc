#include "control/measurements.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice::control {
namespace {

constexpr double kLongest = 1e6;  // seconds of an inference: more is nonsense

bool fell(const std::optional<ProgramCounts>& now, const std::optional<ProgramCounts>& before) {
  return now && before &&
         (now->inferences < before->inferences || now->queue_us < before->queue_us ||
          now->compute_us < before->compute_us);
}

// A gateway does not know the inferences in a body that it cannot read; the program does.
void measure_program(InstanceMeasurements& m, const ProgramCounts& from, const ProgramCounts& to,
                     double elapsed) {
  const double inferences = to.inferences - from.inferences;
  m.inferences_per_second = inferences / elapsed;
  if (inferences <= 0) return;
  const auto each = [&](double us) {
    return from_seconds(std::min(us / inferences / 1e6, kLongest));
  };
  m.queue = each(to.queue_us - from.queue_us);
  m.compute = each(to.compute_us - from.compute_us);
}

}  // namespace

void Measurements::step(const std::vector<ObservedInstance>& instances, Functions& functions,
                        Time now) {
  static const ObservedAnswers kNone;
  auto measured = std::make_shared<MeasuredInstances>();
  measured->reserve(instances.size());
  FunctionFinder finder(functions);
  auto book = books_.begin();
  for (const ObservedInstance& o : instances) {  // both are by id
    const InstanceId& id = o.instance.id;
    if (!alive(o)) continue;
    while (book != books_.end() && book->first < id) book = books_.erase(book);
    if (book == books_.end() || book->first != id) book = books_.try_emplace(book, id);
    const FunctionState* f = finder.find(o.instance.function);
    const ObservedAnswers* answers = f == nullptr ? nullptr : answers_of(*f, id);
    const ObservedAnswers& a = answers == nullptr ? kNone : *answers;
    book->second.add(
        {now, o.used, a.answering, a.answered, a.inferences, a.late, a.slow, o.program});
    InstanceMeasurements& m = measured->emplace_back();
    m.instance = id;
    m.in_flight = a.in_flight;
    book->second.measure(m);
    ++book;
  }
  books_.erase(book, books_.end());
  latest_ = std::move(measured);
}

size_t Measurements::steps_of(const InstanceId& id) const {
  const auto found = books_.find(id);
  return found != books_.end() ? found->second.steps() : 0;
}

void Measurements::Book::add(const Sample& sample) {
  if (added_ > 0) {
    const Sample& before = samples_[(added_ - 1) % kSamples];
    if (sample.used < before.used || sample.answering < before.answering ||
        sample.answered < before.answered || sample.inferences < before.inferences ||
        sample.late < before.late || sample.slow < before.slow ||
        fell(sample.program, before.program))
      added_ = 0;
  }
  samples_[added_++ % kSamples] = sample;
}

void Measurements::Book::measure(InstanceMeasurements& m) const {
  const Sample& from = samples_[added_ <= kSamples ? 0 : added_ % kSamples];
  const Sample& to = samples_[(added_ - 1) % kSamples];
  const double elapsed = seconds(to.at - from.at);
  if (elapsed <= 0) return;
  m.busy = {static_cast<int>(std::lround(1000 * seconds(to.used - from.used) / elapsed))};
  m.inferences_per_second = static_cast<double>(to.inferences - from.inferences) / elapsed;
  if (from.program && to.program && !fell(to.program, from.program))
    measure_program(m, *from.program, *to.program, elapsed);
  const uint64_t answered = to.answered - from.answered;
  if (answered == 0) return;
  m.answers_per_second = static_cast<double>(answered) / elapsed;
  m.late = static_cast<double>(to.late - from.late) / static_cast<double>(answered);
  m.slow = static_cast<double>(to.slow - from.slow) / static_cast<double>(answered);
  m.latency = (to.answering - from.answering) / static_cast<int64_t>(answered);
}

}  // namespace sluice::control
