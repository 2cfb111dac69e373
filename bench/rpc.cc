// rpc: a worker's status report at a job's controller, of 64 workers: from its sending to the
// answer of a question behind it on the same connection. Five times a second from each, at moments
// of its own as workers of many jobs have, and beside that all 64 at one moment. The workers are
// stubs, which train nothing.
//
//   bench_rpc [--workers N] [--reports N] [--json FILE]
#include <algorithm>
#include <thread>

#include "bench/report.h"
#include "tests/support/folder.h"
#include "train/job_server.h"
#include "train/link.h"

namespace sluice::bench {
namespace {

using namespace train;

constexpr Nanos kPatience = Seconds(60);
constexpr Nanos kBetween = Millis(200);  // a trainer's reports

std::vector<double> reports_of(Link& link, const std::string& prefix, Nanos first, int reports,
                               const Clock& clock) {
  std::vector<double> ms;
  std::this_thread::sleep_for(first);
  for (int i = 0; i < reports; ++i) {
    std::this_thread::sleep_for(kBetween);
    const Time begun = clock.now();
    (void)link.send(Progress{1, {i, 0, i}, 0.5, 64, 0.1, 0.01, 1000, 0.1, 50, ""});
    const std::string key = prefix + std::to_string(i);
    (void)link.send(StoreSet{key, "seen"});
    if (link.wait_for(key, 1).ok()) ms.push_back(millis(clock.now() - begun));
  }
  return ms;
}

void run(Report& report, int workers, int reports) {
  const TemporaryFolder folder;
  const SteadyClock clock;
  const wire::Endpoint at{.path = folder.path + "/jobs.sock"};
  const auto server = *JobServer::open(at, 1, clock);
  JobSettings settings{.name = "job"};
  settings.job.batch = 64;
  settings.batch = {64, 64, 0};
  server->add("job", "key", settings);
  std::vector<std::shared_ptr<Link>> links;
  for (int w = 0; w < workers; ++w) {
    links.push_back(
        *Link::open(at, {.job = "job", .key = "key", .worker = "w" + std::to_string(w)}));
    links.back()->next(kPatience);
  }
  for (const auto& link : links) (void)link->send(Loaded{1000, 4});
  for (const auto& link : links)
    if (!link->next(kPatience)) report.fail("a worker was given no rank");

  // Returns the milliseconds of all reports, sorted.
  const auto measure = [&](const std::string& round, bool at_once) {
    std::vector<std::vector<double>> ms(links.size());
    std::vector<std::thread> threads;
    for (size_t w = 0; w < links.size(); ++w)
      threads.emplace_back([&, w] {
        const auto part = static_cast<int64_t>(w) * kBetween / static_cast<int64_t>(links.size());
        ms[w] = reports_of(*links[w], round + std::to_string(w) + "/", at_once ? Nanos(0) : part,
                           reports, clock);
      });
    for (std::thread& t : threads) t.join();
    std::vector<double> all;
    for (const auto& one : ms) all.insert(all.end(), one.begin(), one.end());
    if (all.size() != links.size() * static_cast<size_t>(reports) ||
        !server->status("job")->progress)
      report.fail("reports were lost");
    std::sort(all.begin(), all.end());
    return all;
  };
  const auto p90 = [](const std::vector<double>& all) {
    return all.empty() ? 0 : all[all.size() * 9 / 10];
  };
  const std::vector<double> spread = measure("spread", false), burst = measure("burst", true);
  const Samples s = summarise(spread), b = summarise(burst);
  report.add(Row("a status report, p50", s.p50, "ms").of(s));
  report.add(Row("a status report, p90", p90(spread), "ms").of(s).at_most(2));
  report.add(Row("all at one moment, p50", b.p50, "ms").of(b));
  report.add(Row("all at one moment, p90", p90(burst), "ms").of(b));
  report.note(std::to_string(workers) + " workers, a report each " +
              std::to_string(kBetween / Millis(1)) + " ms");
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("rpc", argc, argv);
  run(report, int_argument(argc, argv, "--workers", 64), int_argument(argc, argv, "--reports", 30));
  return report.finish();
}
