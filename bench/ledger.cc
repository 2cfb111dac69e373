// ledger: a training job whose workers join, leave and are killed at random, and whose controller
// is restarted. Its parameters count how often each sample was used.
//
//   bench_ledger [--events N] [--seed N] [--most-pause-ms N] [--json FILE]
#include <cmath>
#include <fstream>

#include "base/random.h"
#include "bench/report.h"
#include "tests/support/folder.h"
#include "tests/support/training_job.h"

namespace sluice::bench {
namespace {

using train::JobStatus;
using train::TrainingJob;

constexpr int kSamples = 1000, kBatch = 10;
constexpr int64_t kEndless = 1'000'000;

train::JobSettings settings(int64_t epochs) {
  train::JobSettings s;
  s.job.model = SLUICE_TRAINING "/ledger.pt";
  s.job.dataset = SLUICE_TRAINING "/ledger";
  s.job.epochs = epochs;
  s.job.batch = kBatch;
  s.job.learning_rate = kBatch;  // each use of a sample moves its parameter by 1
  s.job.momentum = 0;
  s.batch = {.least = kBatch, .most = kBatch};
  return s;
}

struct Counts {
  int joins = 0, leaves = 0, kills = 0, restarts = 0;
};

// Between 1 and 4 workers; the next event comes within a few steps, also while a group forms.
void disturb(TrainingJob& job, Random& random, Counts& counts) {
  job.reap();
  const std::vector<std::string> workers = job.workers();
  const uint64_t what = workers.size() < 2   ? 0
                        : workers.size() > 3 ? 1 + random.below(2)
                                             : random.below(16) % 5;
  const std::string one = workers.empty() ? "" : workers[random.below(workers.size())];
  if (what == 0 || what == 4) job.start_worker(), ++counts.joins;
  if (what == 1) job.signal(one, SIGTERM), ++counts.leaves;
  if (what == 2) job.signal(one, SIGKILL), ++counts.kills;
  if (what == 3) job.restart_controller(), ++counts.restarts;
}

// Ends the job by its workers, and returns the uses of each sample as the last checkpoint has them.
std::vector<float> uses_at_end(TrainingJob& job) {
  if (job.workers().empty()) job.start_worker();
  job.wait_until([](const JobStatus& s) { return s.workers > 0; });
  job.end_all();
  std::vector<float> uses(kSamples);
  const auto checkpoint = job.status().checkpoint;
  if (!checkpoint) return {};
  std::ifstream in(checkpoint->path + "/state", std::ios::binary);
  in.read(reinterpret_cast<char*>(uses.data()), kSamples * sizeof(float));
  return uses;
}

void run(Report& report, int events, uint64_t seed, int most_pause_ms) {
  const TemporaryFolder folder;
  TrainingJob job(SLUICE_TRAINER, folder.path, settings(kEndless));
  Random random(seed);
  Counts counts;
  job.start_worker();
  for (int i = 0; i < events; ++i) {
    std::this_thread::sleep_for(Millis(random.between(1, most_pause_ms)));
    disturb(job, random, counts);
  }
  const std::vector<float> uses = uses_at_end(job);
  const JobStatus end = job.status();
  if (uses.empty() || !end.checkpoint) return report.fail("the job left no checkpoint");
  // The order of each epoch is known: so many samples of the last one have been used.
  const int64_t taken = end.checkpoint->at.step * kBatch;
  const int64_t epoch = taken / kSamples;
  std::vector<int64_t> expected(kSamples, epoch);
  const std::vector<uint32_t> order = train::epoch_order(1, epoch, kSamples);
  for (int64_t i = 0; i < taken % kSamples; ++i) ++expected[order[static_cast<size_t>(i)]];
  int lost = 0, repeated = 0;
  for (size_t i = 0; i < kSamples; ++i) {
    const int64_t used = -std::lround(uses[i]);
    lost += used < expected[i] ? 1 : 0;
    repeated += used > expected[i] ? 1 : 0;
  }
  if (taken < 20 * kSamples) report.fail("the job took only " + std::to_string(taken) + " samples");
  report.add(Row("samples lost", lost, "samples").at_most(0));
  report.add(Row("samples repeated", repeated, "samples").at_most(0));
  report.add(Row("epochs under way", static_cast<double>(epoch), "epochs"));
  report.note(std::to_string(counts.joins) + " joins, " + std::to_string(counts.leaves) +
              " leaves, " + std::to_string(counts.kills) + " kills, " +
              std::to_string(counts.restarts) + " restarts of the controller; " +
              std::to_string(end.generation) + " generations; seed " + std::to_string(seed));
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("ledger", argc, argv);
  run(report, int_argument(argc, argv, "--events", 1000),
      static_cast<uint64_t>(int_argument(argc, argv, "--seed", 1)),
      int_argument(argc, argv, "--most-pause-ms", 400));
  return report.finish();
}
