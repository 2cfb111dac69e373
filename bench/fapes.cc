// fapes: a round of FaPES's planner on the paper's clusters: 16 and 1,000 nodes of 8 devices. Jobs
// scale as four models whose steps Pollux's authors measured on T4 (OSDI '21).
// As many jobs as the case says are there at any time: one that ends is followed by a new one. The
// paper prints 580 ms at p90 for its 128 GPUs, on another machine.
//
//   bench_fapes [--rounds N] [--json FILE]
#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "bench/report.h"
#include "bench/trained_models.h"
#include "policy/plan/plan_fapes.h"

namespace sluice::bench {
namespace {

using policy::Contender;
using policy::Dealt;
using policy::Job;
using policy::Placed;

constexpr double kRound = 600;
constexpr double kPaperMs = 580;

class Cluster {
 public:
  Cluster(int nodes, int jobs) : devices_(static_cast<size_t>(nodes), 8) {
    for (int n = 0; n < nodes; ++n) names_.push_back("node-" + std::to_string(n));
    for (int j = 0; j < jobs; ++j) submit();
  }

  // Returns the milliseconds of the round's decision; then the round passes.
  double round() {
    policy::Table table{.now = Time(from_seconds(now_))};
    table.devices = devices_;
    table.names = names_;
    table.memory = &memory_;
    table.random = &random_;
    for (const Running& r : running_) table.jobs.push_back(contender(r));
    const double begin = cpu_ms();
    const Dealt dealt = policy::fapes(table, {});
    const double ms = cpu_ms() - begin;
    now_ += kRound;
    for (size_t i = 0; i < dealt.size(); ++i) train(running_[i], table.jobs[i], dealt[i]);
    const size_t before = running_.size();
    std::erase_if(running_,
                  [](const Running& r) { return r.view->job->done >= r.view->job->samples; });
    for (size_t ended = before - running_.size(); ended > 0; --ended) submit(), ++completed_;
    return ms;
  }
  int completed() const { return completed_; }
  double used() const { return used_ / std::max(now_ / kRound * total(), 1.0); }

 private:
  struct Running {
    FunctionView* view;
    Job* job;
    Placed now;
    double submitted, last_ran, attained = 0;
  };

  int total() const { return 8 * static_cast<int>(devices_.size()); }

  void submit() {
    const std::string name = "job-" + std::to_string(views_.size() + 1);
    FunctionView& view = views_.emplace_back(random_job(name, Time(from_seconds(now_)), random_));
    Job& job = jobs_.emplace_back(Job{.view = &view});
    running_.push_back({&view, &job, {}, now_, now_});
  }

  Contender contender(const Running& r) const {
    Contender c(*r.job, std::min(64, total()));
    c.now = r.now;
    c.age = from_seconds(now_ - r.submitted);
    c.attained = r.attained;
    if (r.now.empty()) c.waited = from_seconds(now_ - r.last_ran);
    return c;
  }

  void train(Running& r, const Contender& c, const Placed& placed) {
    r.now = placed;
    if (placed.empty()) return;
    const int workers = policy::workers_in(placed);
    used_ += workers;
    r.last_ran = now_;
    r.attained += workers * kRound;
    const double done = c.throughput(workers, static_cast<int>(placed.size())) * kRound;
    r.view->job->done += static_cast<int64_t>(done * (0.9 + 0.2 * random_.uniform())) + 1;
  }

  std::vector<int> devices_;
  std::vector<std::string> names_;
  policy::Memory memory_;
  Random random_{1};
  std::deque<FunctionView> views_;
  std::deque<Job> jobs_;
  std::vector<Running> running_;
  double now_ = 1000, used_ = 0;
  int completed_ = 0;
};

void measure(Report& report, int nodes, int jobs, int rounds, double goal, bool as_paper) {
  Cluster cluster(nodes, jobs);
  std::vector<double> ms;
  for (int i = 0; i < rounds; ++i) ms.push_back(cluster.round());
  const double first = ms.front();
  std::ranges::sort(ms);
  const double p90 = ms[(ms.size() - 1) * 9 / 10];
  const std::string name =
      std::to_string(8 * nodes) + " devices, " + std::to_string(jobs) + " jobs";
  Row row(name + ": a round, p90", p90, "ms");
  if (as_paper) row.beside("the paper's, as printed, ms", kPaperMs);
  report.add(row.of(summarise(ms)).at_most(goal));
  report.add(Row(name + ": the first round, all jobs new", first, "ms").at_most(goal));
  report.note(name + ": " + std::to_string(cluster.completed()) + " jobs completed, " +
              std::to_string(static_cast<int>(100 * cluster.used())) + " % of the devices held.");
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("fapes", argc, argv);
  const int rounds = std::max(1, int_argument(argc, argv, "--rounds", 50));
  measure(report, 16, 40, rounds, 50, true);
  measure(report, 1000, 1000, std::max(rounds / 5, 2), 1000, false);
  return report.finish();
}
