// steptime: how well Pollux's model of a training step (model/step_model.h), as src/predict fits
// it, predicts recorded steps; how long a fit takes, since a controller refits while a job runs;
// and how well recorded all-reduces are met.
//
// Of each application, the mean of |predicted ÷ measured − 1| over its steps:
//   in sample                 by the fit to all steps, beside an L-BFGS-B fit of the same objective
//   worker counts left out    each count is predicted from the others
//   batches left out          each local batch is predicted from the others
//   from up to 8 workers      larger jobs are predicted from smaller ones
// Three and four workers are also predicted from two, by a timeline (predict/step_timeline.h).
// What is left out stands beside the error in sample. An all-reduce's error stands beside that of
// NCCL's own model of its algorithms, of which two coefficients were fitted to the same run.
//
//   bench_steptime [--data FOLDER] [--json FILE]
//
// FOLDER has pollux/, elasticflow/ and nccl/; by default it is shared/data/training beside the
// checkout. Without it, only the time of a fit is measured.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "bench/recorded_steps.h"
#include "bench/report.h"
#include "bench/step_errors.h"
#include "predict/step_timeline.h"

namespace sluice::bench {
namespace {

using predict::CollectiveSample;

constexpr int kRounds = 20;
constexpr double kGoalMs = 5;        // of a fit
constexpr double kGoalRatio = 1.05;  // error in sample ÷ the reference's

double cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

void add_left_out(Report& report, const std::string& name, const Errors& errors, double in_sample) {
  if (errors.empty()) return;
  const Samples s = summarise(errors);
  report.add(Row(name, s.mean, "%").beside("in sample, %", in_sample).of(s));
}

void add_quality(Report& report, const std::string& name, const Quality& q, double reference) {
  const Samples in_sample = summarise(q.in_sample);
  Row row(name + ": in sample", in_sample.mean, "%");
  row.of(in_sample);
  if (reference > 0) row.beside("reference fit, %", reference).ratio_at_most(kGoalRatio);
  report.add(row);
  add_left_out(report, name + ": worker counts left out", q.counts_out, in_sample.mean);
  add_left_out(report, name + ": batches left out", q.batches_out, in_sample.mean);
  add_left_out(report, name + ": from up to 8 workers", q.larger_out, in_sample.mean);
}

Samples time_of_fit(const Steps& steps) {
  std::vector<double> ms;
  for (int i = 0; i < kRounds; ++i) {
    const double begin = cpu_ms();
    if (!predict::fit_step_model(steps)) return {};
    ms.push_back(cpu_ms() - begin);
  }
  return summarise(ms);
}

// A controller's history: 400 steps of 40 configurations, 5 % noise.
void measure_fit(Report& report) {
  constexpr StepModel kTruth{0.064, 0.00449, 0.108, 0.00189, 0.299, 0.00656, 2.47};
  Random random(1);
  Steps steps;
  for (int i = 0; i < 400; ++i) {
    const int workers = 1 << (i % 5);
    const Workers w{workers, 1 + (workers - 1) / 4};
    const double local = 16 * (1 + i / 5 % 8);
    const double noise = std::exp(0.05 * random.normal());
    const double grad = (kTruth.alpha_c + kTruth.beta_c * local) * noise;
    const double step = step_seconds(kTruth, w, local) * noise;
    steps.push_back({w.count, w.nodes, local, step, std::max(step - grad, 0.0)});
  }
  const Samples ms = time_of_fit(steps);
  report.add(Row("a fit to 400 steps, 40 configurations", ms.p50, "ms").of(ms).at_most(kGoalMs));
  const Samples error = summarise(errors_of(predict::fit_step_model(steps).value(), steps));
  if (error.mean > 5)
    report.fail("the fit to steps with 5 % noise is " + std::to_string(error.mean) + " % off");
}

// What a plan knows of a job's first group: the steps of two workers on one node. They predict
// those of three and four there, by a timeline of one bucket, whose all-reduce is what of the step
// is no computation (the records have no bytes: a ring's ratio of ranks alone counts), and by the
// fit.
void measure_timeline(Report& report, const StepsByName& applications) {
  constexpr double kBytes = 1e6;
  const std::vector<double> bytes = {kBytes};
  Errors by_timeline, by_fit;
  for (const auto& [name, steps] : applications) {
    Steps two, more;
    std::vector<predict::ProfiledStep> profiled;
    std::vector<CollectiveSample> sums;
    for (const predict::StepSample& s : steps) {
      if (s.nodes > 1 || s.workers < 2) continue;
      (s.workers == 2 ? two : more).push_back(s);
      if (s.workers > 2) continue;
      const double computes = s.step_seconds - s.sync_seconds;
      profiled.push_back({s.local_batch, {computes}, computes, 0});
      sums.push_back({2, kBytes, s.sync_seconds});
    }
    const auto profile = predict::profile_of(profiled, bytes);
    const auto collective = predict::fit_collective(sums);
    const auto model = predict::fit_step_model(two);
    if (!profile || !collective || !model) continue;
    for (const predict::StepSample& s : more)
      by_timeline.push_back(100 *
                            std::abs(predict::predicted_step(*profile, *collective,
                                                             {.count = s.workers}, s.local_batch)
                                             .step_seconds /
                                         s.step_seconds -
                                     1));
    const Errors errors = errors_of(*model, more);
    by_fit.insert(by_fit.end(), errors.begin(), errors.end());
  }
  if (by_timeline.empty()) return;
  const Samples s = summarise(by_timeline);
  report.add(Row("T4, three and four workers of a node from two: the timeline", s.mean, "%")
                 .of(s)
                 .beside("the fit to two, %", summarise(by_fit).mean));
}

struct Reference {
  std::string_view of;
  double error;  // per cent
};

// 0: there is none.
double reference_of(std::span<const Reference> references, std::string_view name) {
  const auto found = std::ranges::find(references, name, &Reference::of);
  return found == references.end() ? 0 : found->error;
}

void measure_pollux(Report& report, const StepsByName& applications) {
  constexpr Reference kFits[] = {{"bert", 6.4},     {"cifar10", 8.2}, {"deepspeech2", 8.4},
                                 {"imagenet", 7.1}, {"ncf", 9.9},     {"yolov3", 8.8}};
  Quality total;
  double reference = 0;
  Samples longest;
  for (const auto& [name, steps] : applications) {
    const Samples ms = time_of_fit(steps);
    if (ms.p50 > longest.p50) longest = ms;
    const Quality q = quality_of(steps);
    total.add(q);
    reference += static_cast<double>(steps.size()) * reference_of(kFits, name);
    add_quality(report, "T4 " + name, q, reference_of(kFits, name));
  }
  add_quality(report, "T4, all steps", total,
              reference / static_cast<double>(total.in_sample.size()));
  measure_timeline(report, applications);
  report.add(
      Row("the longest fit to an application", longest.p50, "ms").of(longest).at_most(kGoalMs));
}

void measure_elasticflow(Report& report, const StepsByName& models) {
  Quality total;
  for (const auto& [name, steps] : models) {
    const Quality q = quality_of(steps);
    total.add(q);
    const Samples s = summarise(q.in_sample);
    report.add(Row("ElasticFlow " + name + ": in sample", s.mean, "%").of(s));
  }
  add_quality(report, "ElasticFlow, all steps", total, 0);
  report.note(
      "ElasticFlow's A100 jobs of up to 8 workers are within a node: the fit sees no network.");
}

void measure_collectives(Report& report, const CollectivesByName& runs) {
  constexpr Reference kModels[] = {{"a100x16_efa400", 15.4},
                                   {"a100x8_nvswitch", 5.0},
                                   {"v100x16_efa100", 12.9},
                                   {"v100x4_sys", 14.5},
                                   {"v100x8_mesh", 4.3}};
  for (const auto& [name, samples] : runs) {
    const double reference = reference_of(kModels, name);
    const auto model = predict::fit_collective(samples);
    if (reference == 0 || !model) continue;
    Errors errors;
    for (const CollectiveSample& s : samples)
      errors.push_back(
          100 * std::abs(predict::all_reduce_seconds(*model, s.ranks, s.bytes) / s.seconds - 1));
    const Samples all = summarise(errors);
    report.add(Row("all-reduce, " + name + ": in sample", all.mean, "%")
                   .beside("NCCL's own model, %", reference)
                   .of(all));
  }
}

// Measures one data set, if it is there.
template <class Data>
void with(Report& report, const Result<Data>& data,
          void (*measure)(Report& report, const Data& data)) {
  if (data.ok())
    measure(report, *data);
  else if (data.error().kind == ErrorKind::kNotFound)
    report.note("Skipped: " + data.error().message + ".");
  else
    report.fail(data.error().message);
}

void measure_recorded(Report& report, const std::string& folder) {
  if (!std::filesystem::is_directory(folder))
    return report.note("Recorded steps are skipped: there is no folder " + folder + ".");
  with(report, read_pollux(folder + "/pollux"), measure_pollux);
  with(report, read_elasticflow(folder + "/elasticflow"), measure_elasticflow);
  with(report, read_nccl(folder + "/nccl"), measure_collectives);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("steptime", argc, argv);
  std::string data = SLUICE_TRAINING_DATA;
  for (int k = 1; k + 1 < argc; ++k)
    if (argv[k] == std::string_view("--data")) data = argv[k + 1];
  measure_fit(report);
  measure_recorded(report, data);
  return report.finish();
}
