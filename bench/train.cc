// train: samples per second of two workers, beside torch's DistributedDataParallel over Gloo with
// the same module, data and batch, one thread a rank. The two take turns.
//
//   bench_train [--rounds N] [--seconds N] [--json FILE]
#include <array>
#include <cstdio>
#include <cstdlib>

#include "bench/report.h"
#include "tests/support/folder.h"
#include "tests/support/training_job.h"

namespace sluice::bench {
namespace {

using train::JobStatus;
using train::TrainingJob;

struct Case {
  const char* module;
  int batch;
};

train::JobSettings settings(const Case& c) {
  train::JobSettings s;
  s.job.model = std::string(SLUICE_TRAINING "/") + c.module + ".pt";
  s.job.dataset = std::string(SLUICE_TRAINING "/") + c.module;
  s.job.epochs = 1'000'000;
  s.job.batch = c.batch;
  s.job.learning_rate = 0.001;
  s.batch = {.least = c.batch, .most = c.batch};
  return s;
}

double ours(Report& report, const Case& c, Nanos length) {
  const SteadyClock clock;
  const TemporaryFolder folder;
  TrainingJob job(SLUICE_TRAINER, folder.path, settings(c));
  job.start_worker();
  job.start_worker();
  const auto step = [&] { return job.status().progress->at.step; };
  if (!job.wait_until([](const JobStatus& s) {
        return s.workers == 2 && s.progress && s.progress->at.step > 20;
      }))
    return report.fail("the job does not train"), 0;
  // From one report to another, as steps between them are not seen.
  const int64_t before = step();
  job.wait_until([&](const JobStatus& s) { return s.progress->at.step > before; });
  const int64_t first = step();
  const Time begun = clock.now();
  std::this_thread::sleep_for(length);
  const int64_t near_end = step();
  job.wait_until([&](const JobStatus& s) { return s.progress->at.step > near_end; });
  const double taken = seconds(clock.now() - begun);
  return static_cast<double>((step() - first) * c.batch) / taken;
}

double reference(Report& report, const Case& c, Nanos length) {
  const std::string dataset = std::string(SLUICE_TRAINING "/") + c.module;
  const std::string words = std::string(SLUICE_DDP) + " " + dataset + ".pt " + dataset + " " +
                            std::to_string(c.batch) + " " + std::to_string(seconds(length));
  const std::string variables =
      "GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
      "MASTER_PORT=29731 ";
  const std::string command = variables + "RANK=1 " + words + " >/dev/null 2>&1 & " + variables +
                              "RANK=0 " + words + " 2>/dev/null; wait";
  FILE* out = popen(command.c_str(), "r");
  std::array<char, 64> line{};
  if (out != nullptr && fgets(line.data(), line.size(), out) == nullptr) line[0] = '\0';
  if (out == nullptr || pclose(out) != 0 || std::atof(line.data()) <= 0)
    report.fail(std::string("DistributedDataParallel did not train ") + c.module);
  return std::atof(line.data());
}

void run(Report& report, const Case& c, int rounds, Nanos length) {
  std::vector<double> mine, theirs, ratios;
  for (int i = 0; i < rounds; ++i) {
    mine.push_back(ours(report, c, length));
    theirs.push_back(reference(report, c, length));
    ratios.push_back(theirs.back() > 0 ? mine.back() / theirs.back() : 0);
  }
  const Samples s = summarise(mine);
  report.add(Row(std::string(c.module) + ", batch " + std::to_string(c.batch), s.p50, "samples/s")
                 .of(s)
                 .beside("DistributedDataParallel", summarise(theirs).p50)
                 .ratio_at_least(0.97));
  report.add(
      Row(std::string(c.module) + ", median of the rounds' ratios", summarise(ratios).p50, "x")
          .of(summarise(ratios))
          .at_least(0.97));
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::bench;
  Report report("train", argc, argv);
  const int rounds = int_argument(argc, argv, "--rounds", 5);
  const Nanos length = Seconds(int_argument(argc, argv, "--seconds", 8));
  for (const Case& c : {Case{"digits", 256}, Case{"wide", 64}}) run(report, c, rounds, length);
  return report.finish();
}
