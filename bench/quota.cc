// quota: the share of a device that a client uses against its granted share, measured by the
// kernel's counter from outside, over windows of one second: alone, and with three neighbours that
// are idle, greedy (they may borrow everything) or bursty. On a device of one core, and on one that
// is four fifths of a core, as on a machine of four.
//
// Each case reports the time of other programs on that core: a device with less than its core
// cannot keep its reservations.
//
//   bench_quota [--windows N] [--arbiter NAME] [--only TEXT] [--json FILE]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "bench/report.h"
#include "tests/support/testbed.h"

namespace sluice::bench {
namespace {

constexpr int kQuotas[] = {50, 100, 200, 400, 600, 800, 900};  // permille
constexpr int kDevices[] = {1000, 800};                        // millicores
constexpr Nanos kWindow = Seconds(1);
constexpr Nanos kSettle = Millis(300);

struct Scene {
  const char* name;
  int neighbours;
  Load load;
};
constexpr Scene kScenes[] = {{"alone", 0, Load::kIdle},
                             {"3 idle", 3, Load::kIdle},
                             {"3 greedy", 3, Load::kGreedy},
                             {"3 bursty", 3, Load::kBursty}};

struct Error {
  double mean = 0, worst = 0;  // in percent of the device, absolute
  double others = 0;           // percent of the core, over all windows
  Samples samples;
};

Error measure(Testbed& bed, policy::ClientId client, int quota, int windows) {
  (void)used_share(bed, client, kSettle);
  std::vector<double> shares;
  Error error;
  const Nanos others = bed.used_by_others();
  for (int i = 0; i < windows; ++i) {
    shares.push_back(100 * used_share(bed, client, kWindow));
    error.worst = std::max(error.worst, std::abs(shares.back() - quota / 10.0));
  }
  error.others = 100 * seconds(bed.used_by_others() - others) / seconds(kWindow) / windows;
  error.samples = summarise(shares);
  error.mean = std::abs(error.samples.mean - quota / 10.0);
  return error;
}

// The same quota by the kernel alone, 20 ms of 100 at 20 %.
Error by_kernel(int millicores, int quota, int windows) {
  Testbed bed({.millicores = millicores, .quota = {.margin = 1.0, .period = Millis(100)}});
  if (!bed.has_backstop()) return {};
  const policy::ClientId client = bed.start(Load::kUngated, quota, quota);
  return measure(bed, client, quota, windows);
}

std::string name_of(int millicores, int quota, const Scene& scene) {
  const std::string part = millicores == 1000 ? "" : "of " + std::to_string(millicores) + " mc, ";
  return std::to_string(quota / 10) + " %, " + part + scene.name;
}

void run(Report& report, const std::string& arbiter, int millicores, int quota, const Scene& scene,
         int windows) {
  // The reference, for the case that can be compared with it: a client alone.
  const Error kernel = scene.neighbours == 0 ? by_kernel(millicores, quota, windows) : Error{};
  Testbed bed({.arbiter = arbiter, .millicores = millicores});
  const policy::ClientId client = bed.start(Load::kGreedy, quota, quota);
  for (int i = 0; i < scene.neighbours; ++i)
    bed.start(scene.load, (1000 - quota) / scene.neighbours, 1000);
  const Error error = measure(bed, client, quota, windows);
  const std::string name = name_of(millicores, quota, scene);
  if (bed.progress(client).gate != SLUICE_GATE_ATTACHED) report.fail(name + ": not attached");
  if (error.samples.max <= 0) report.fail(name + ": no work was done");

  Row mean(name + ": mean error", error.mean, "%");
  Row worst(name + ": worst window", error.worst, "%");
  if (kernel.samples.n > 0) {
    if (kernel.samples.max <= 0) report.fail(name + ": the reference did no work");
    mean.beside("cgroup quota alone", kernel.mean);
    worst.beside("cgroup quota alone", kernel.worst);
  }
  const TestbedConfig config;
  const double longest = 100 * seconds(config.operator_time) / seconds(kWindow);
  report.add(mean.of(error.samples).at_most(1));
  report.add(worst.of(error.samples).at_most(std::max(1.0, longest)));
  std::printf("%s: %.2f %% used, mean error %.2f, worst %.2f; others took %.1f %% of the core\n",
              name.c_str(), error.samples.mean, error.mean, error.worst, error.others);
  std::fflush(stdout);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("quota", argc, argv);
  const int windows = std::max(int_argument(argc, argv, "--windows", 60), 1);
  const std::string arbiter =
      text_argument(argc, argv, "--arbiter", std::string(sluice::policy::kDefaultArbiter));
  const std::string only = text_argument(argc, argv, "--only");
  for (const int millicores : kDevices)
    for (const Scene& scene : kScenes)
      for (const int quota : kQuotas)
        if (name_of(millicores, quota, scene).find(only) != std::string::npos)
          run(report, arbiter, millicores, quota, scene, windows);
  report.note(
      "windows of 1 s, operators of 0.2 ms; share of a device of one core, or 800 millicores");
  return report.finish();
}
