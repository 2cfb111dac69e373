#include "bench/step_errors.h"

#include <cmath>
#include <set>

#include "base/check.h"

namespace sluice::bench {
namespace {

using predict::StepSample;

// The errors of those steps for which `out` holds, by a fit to the others.
template <class Out>
Errors errors_left_out(const Steps& steps, const Out& out) {
  Steps known, left;
  for (const StepSample& s : steps) (out(s) ? left : known).push_back(s);
  const auto model = predict::fit_step_model(known);
  return model ? errors_of(*model, left) : Errors();
}

// Each value of the key is left out once.
template <class Key>
Errors errors_by(const Steps& steps, const Key& key) {
  std::set<double> values;
  for (const StepSample& s : steps) values.insert(key(s));
  Errors all;
  for (const double value : values) {
    const Errors some =
        errors_left_out(steps, [&](const StepSample& s) { return key(s) == value; });
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace

void Quality::add(const Quality& other) {
  for (const auto part :
       {&Quality::in_sample, &Quality::counts_out, &Quality::batches_out, &Quality::larger_out})
    (this->*part).insert((this->*part).end(), (other.*part).begin(), (other.*part).end());
}

Errors errors_of(const StepModel& model, const Steps& steps) {
  Errors errors;
  for (const StepSample& s : steps) {
    const double predicted = step_seconds(model, {s.workers, s.nodes, s.speed}, s.local_batch);
    errors.push_back(100 * std::abs(predicted / s.step_seconds - 1));
  }
  return errors;
}

Quality quality_of(const Steps& steps) {
  Quality q;
  const auto model = predict::fit_step_model(steps);
  SLUICE_CHECK(model, "there are steps");
  q.in_sample = errors_of(*model, steps);
  q.counts_out = errors_by(steps, [](const StepSample& s) { return s.workers; });
  q.batches_out = errors_by(steps, [](const StepSample& s) { return s.local_batch; });
  q.larger_out =
      errors_left_out(steps, [](const StepSample& s) { return s.workers > kFewWorkers; });
  return q;
}

}  // namespace sluice::bench
