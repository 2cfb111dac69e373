// reform: what a change of a training job's workers costs, with 100 MB of parameters and little
// computation: the time from the last step before it to the end of the first step after it, less a
// plain step of as many workers. A crash counts from the kill. Beside a restart of the whole job
// from its checkpoint.
//
//   bench_reform [--times N] [--json FILE]
#include <algorithm>

#include "bench/report.h"
#include "tests/support/folder.h"
#include "tests/support/training_job.h"

namespace sluice::bench {
namespace {

using train::JobStatus;
using train::Reform;
using train::TrainingJob;

train::JobSettings settings() {
  train::JobSettings s;
  s.job.model = SLUICE_TRAINING "/wide.pt";
  s.job.dataset = SLUICE_TRAINING "/wide";
  s.job.epochs = 1'000'000;
  s.job.batch = 64;
  s.job.learning_rate = 1e-3;
  s.batch = {.least = 64, .most = 64};
  return s;
}

class Figures {
 public:
  explicit Figures(Report& report)
      : report_(report), job_(SLUICE_TRAINER, folder_.path, settings()) {}

  void run(int workers, int times);

 private:
  // Waits until so many train, and two steps more.
  void settle(int workers);
  double plain_ms();
  double newest(const std::string& why, bool with_stop);
  double restart_ms(int workers);
  void add(int workers, const std::string& what, const std::vector<double>& ms, double restart,
           double bound);

  Report& report_;
  const TemporaryFolder folder_;
  TrainingJob job_;
};

void Figures::settle(int workers) {
  while (static_cast<int>(job_.workers().size()) < workers) job_.start_worker();
  const bool there = job_.wait_until([&](const JobStatus& s) {
    return s.workers == workers && s.progress && s.progress->generation == s.generation;
  });
  const int64_t step = there ? job_.status().progress->at.step : 0;
  if (!there ||
      !job_.wait_until([&](const JobStatus& s) { return s.progress->at.step >= step + 3; }))
    report_.fail("the job does not train with " + std::to_string(workers) + " workers");
}

double Figures::plain_ms() {
  return job_.status().progress->step_seconds * 1000;
}

// The cost of the newest change, which has to be of that kind.
double Figures::newest(const std::string& why, bool with_stop) {
  const Reform r = job_.status().reforms.back();
  if (r.why != why) report_.fail("a " + r.why + " where a " + why + " was expected");
  return millis(r.forming + (with_stop ? r.stopping : Nanos(0)));
}

double Figures::restart_ms(int workers) {
  const SteadyClock clock;
  const double plain = plain_ms();
  const Time begun = clock.now();
  job_.end_all();
  const int64_t generation = job_.status().generation;
  for (int i = 0; i < workers; ++i) job_.start_worker();
  job_.wait_until([&](const JobStatus& s) {
    return s.workers == workers && s.progress->generation > generation;
  });
  return millis(clock.now() - begun) - plain;
}

void Figures::add(int workers, const std::string& what, const std::vector<double>& ms,
                  double restart, double bound) {
  const Samples s = summarise(ms);
  report_.add(Row(std::to_string(workers) + " workers: " + what + ", median", s.p50, "ms")
                  .of(s)
                  .beside("restart of the job", restart)
                  .at_most(bound));
}

void Figures::run(int workers, int times) {
  std::vector<double> leave, join, crash, restart;
  settle(workers);
  for (int i = 0; i < times; ++i) {
    job_.signal(job_.workers().front(), SIGTERM);
    job_.wait_until([&](const JobStatus&) { return !job_.reap().empty(); });
    settle(workers - 1);
    leave.push_back(newest("leave", false) - plain_ms());
    settle(workers);
    join.push_back(newest("join", false) - plain_ms());
    job_.signal(job_.workers().back(), SIGKILL);
    job_.wait_until([&](const JobStatus&) { return !job_.reap().empty(); });
    settle(workers - 1);
    crash.push_back(newest("crash", true) - plain_ms());
    settle(workers);
    if (i < 3) restart.push_back(restart_ms(workers));
    settle(workers);
  }
  const double restarted = summarise(restart).p50;
  add(workers, "a planned leave", leave, restarted, 150);
  add(workers, "a join", join, restarted, 300);
  add(workers, "a crash", crash, restarted, 300);
  report_.note(std::to_string(workers) + " workers: a plain step takes " +
               std::to_string(static_cast<int>(plain_ms())) + " ms");
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("reform", argc, argv);
  const int times = int_argument(argc, argv, "--times", 10);
  for (const int workers : {2, 3, 4}) Figures(report).run(workers, times);
  return report.finish();
}
