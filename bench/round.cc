// round: one decision about training jobs by plan `sluice` (--plans), as the control loop asks for
// it: at 128 devices with 40 jobs, and at 8,000 with 1,000. As many jobs as the case says are there
// at any time: one that ends is followed by a new one. What is decided is carried out, and half a
// minute passes. FaPES prints 580 ms at p90 for 128 GPUs, on another machine.
//
//   bench_round [--rounds N] [--plans NAME,NAME] [--json FILE]
#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/trained_models.h"
#include "policy/decide.h"

namespace sluice::bench {
namespace {

constexpr Nanos kBetween = Seconds(30);
constexpr double kPaperMs = 580;

// Nothing is known of inference functions; there are none.
class NoPredictor : public Predictor {
 public:
  std::optional<Prediction> predict(const ModelOnDevice&, const Configuration&) const override {
    return std::nullopt;
  }
  Candidates candidates(const ModelOnDevice&) const override { return {}; }
  std::optional<Bytes> memory(const ModelOnDevice&) const override { return std::nullopt; }
  void learn(const Measurement&) override {}
  void forget(const FunctionName&) override {}
};

std::string numbered(const char* prefix, int n) {
  std::string digits = std::to_string(n);
  return prefix + std::string(6 - digits.size(), '0') + digits;
}

class Cluster {
 public:
  Cluster(int nodes, int jobs, std::string plan) : platform_{.plan = std::move(plan)} {
    now_.now = Time(Seconds(1000));
    for (int n = 0; n < nodes; ++n) {
      now_.nodes.push_back({.name = numbered("n", n)});
      for (int d = 0; d < 8; ++d)
        now_.devices.push_back({.id = numbered("n", n) + "/gpu" + std::to_string(d),
                                .kind = DeviceKind::kCuda,
                                .node = numbered("n", n),
                                .memory = Bytes{32} << 30});
    }
    for (int j = 0; j < jobs; ++j) submit();
  }

  // Returns the milliseconds of the decision; then it is carried out, and time passes.
  double round() {
    const double begin = cpu_ms();
    const std::vector<Action> actions =
        policy::decide(now_, platform_, predictor_, memories_, random_);
    const double ms = cpu_ms() - begin;
    policy::carry_out(now_, actions, "i", started_);
    now_.now += kBetween;
    std::erase_if(now_.instances,
                  [](const Instance& i) { return i.state == InstanceState::kDraining; });
    std::map<FunctionName, int> workers;
    for (Instance& i : now_.instances) {
      i.state = InstanceState::kReady;
      ++workers[i.function];
    }
    used_ += static_cast<double>(now_.instances.size());
    train(workers);
    return ms;
  }
  int completed() const { return completed_; }
  double used(int rounds) const {
    return used_ / (static_cast<double>(now_.devices.size()) * rounds);
  }

 private:
  void submit() {
    FunctionView job = random_job(numbered("job-", ++submitted_), now_.now, random_);
    job.revision = 1;
    job.job->reform = Seconds(20);
    now_.functions.push_back(std::move(job));
  }

  void train(const std::map<FunctionName, int>& workers) {
    size_t ended = 0;
    for (FunctionView& f : now_.functions) {
      const auto found = workers.find(f.spec.name);
      if (found == workers.end()) continue;
      const double rate =
          best_batch(*f.job->step, {.count = found->second}, f.job->noise, f.spec.training().batch)
              .throughput;
      f.job->phase = JobPhase::kRunning;
      f.job->done += static_cast<int64_t>(rate * seconds(kBetween));
      if (f.job->done < f.job->samples) continue;
      std::erase_if(now_.instances, [&](const Instance& i) { return i.function == f.spec.name; });
      f.job->phase = JobPhase::kFinished;
      ++ended;
    }
    std::erase_if(now_.functions,
                  [](const FunctionView& f) { return f.job->phase == JobPhase::kFinished; });
    completed_ += static_cast<int>(ended);
    for (; ended > 0; --ended) submit();
  }

  policy::PlatformPolicy platform_;
  NoPredictor predictor_;
  policy::Memories memories_;
  Random random_{1};
  Snapshot now_;
  double used_ = 0;
  int started_ = 0, submitted_ = 0, completed_ = 0;
};

void measure(Report& report, const std::string& plan, int nodes, int jobs, int rounds,
             double goal) {
  Cluster cluster(nodes, jobs, plan);
  std::vector<double> ms;
  for (int i = 0; i < rounds; ++i) ms.push_back(cluster.round());
  const double first = ms.front();
  std::ranges::sort(ms);
  const std::string name =
      plan + ", " + std::to_string(8 * nodes) + " devices, " + std::to_string(jobs) + " jobs";
  Row row(name + ": p90", ms[(ms.size() - 1) * 9 / 10], "ms");
  if (8 * nodes == 128) row.beside("FaPES, as printed, ms", kPaperMs);
  report.add(row.of(summarise(ms)).at_most(goal));
  report.add(Row(name + ": the first, all jobs new", first, "ms").at_most(goal));
  report.note(name + ": " + std::to_string(cluster.completed()) + " jobs completed, " +
              std::to_string(static_cast<int>(100 * cluster.used(rounds))) +
              " % of the devices held.");
  if (cluster.used(rounds) < 0.5) report.fail(name + ": most devices were left idle");
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("round", argc, argv);
  const int rounds = std::max(1, int_argument(argc, argv, "--rounds", 50));
  std::istringstream plans(text_argument(argc, argv, "--plans", "sluice"));
  for (std::string plan; std::getline(plans, plan, ',');) {
    measure(report, plan, 16, 40, rounds, 50);
    measure(report, plan, 1000, 1000, std::max(rounds / 5, 2), 1000);
  }
  return report.finish();
}
