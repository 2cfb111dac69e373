// schedule: every placement puts 3,200 instances onto 1,000 nodes of 4 devices, one after the
// other, as a cluster does after a failure. Slices of eight sizes in random order, from an equal
// start. The time has everything that a decision does for placement: laying out 4,000 devices, each
// choice, and its effect. Beside it is the time that Dilu prints for its scheduler at that scale
// (ASPLOS '25), which was on another machine.
//
// With Dilu's own list of instances (docs/simulator.md names such files) that list is placed too,
// each instance with all its devices, requests and limits as shares of time.
//
//   bench_schedule [--rounds N] [--instances FILE] [--json FILE]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "bench/report.h"
#include "policy/place/place.h"
#include "trace/clusters.h"

namespace sluice::bench {
namespace {

using policy::Layouts;
using policy::Placement;
using policy::PlaceRequest;

constexpr int kNodes = 1000, kDevicesOfNode = 4;
constexpr int kInstances = 3200;
constexpr Bytes kDeviceMemory = Bytes{40} << 30;
constexpr double kDiluMs = 1120;
constexpr double kGoalMs = 10;

double cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

std::vector<Device> devices() {
  std::vector<Device> all;
  for (int node = 0; node < kNodes; ++node)
    for (int gpu = 0; gpu < kDevicesOfNode; ++gpu) {
      char id[32];
      std::snprintf(id, sizeof id, "node-%04d/cuda%d", node, gpu);
      all.push_back({.id = id,
                     .kind = DeviceKind::kCuda,
                     .model = "NVIDIA A100-SXM4-40GB",
                     .memory = kDeviceMemory,
                     .sm_quantum = {10}});
    }
  return all;
}

// FaST-GShare's sampling points, by the sizes that its evaluation uses and some between.
std::vector<PlaceRequest> requests() {
  constexpr std::pair<int, int> kSizes[] = {{120, 400}, {240, 400}, {500, 600}, {240, 1000},
                                            {120, 200}, {500, 400}, {60, 800},  {600, 800}};
  Random random(1);
  std::vector<PlaceRequest> all;
  for (int i = 0; i < kInstances; ++i) {
    const auto [sm, quota] = kSizes[random.below(std::size(kSizes))];
    all.push_back(
        {nullptr, {sm}, {{quota}, kWhole}, static_cast<Bytes>(1 + random.below(4)) << 30});
  }
  return all;
}

// Dilu's instances as far as they were started; nothing without a file.
std::vector<PlaceRequest> listed(const std::string& path) {
  std::vector<PlaceRequest> all;
  if (path.empty()) return all;
  const auto jobs = trace::read_dilu_instances(path);
  SLUICE_CHECK(jobs.ok(), jobs.error().message);
  for (const trace::RecordedJob& job : *jobs)
    all.push_back({.sm = kWhole,
                   .quota = {job.request, job.limit},
                   .memory = job.memory.front(),
                   .parts = job.gpus});
  return all;
}

struct Outcome {
  double ms = 0;
  int placed = 0;
  int used = 0;  // devices
};

Outcome place_all(const Placement& placement, const std::vector<Device>& devices,
                  const std::vector<PlaceRequest>& requests, const std::vector<InstanceId>& ids) {
  Outcome outcome;
  const double begin = cpu_ms();
  Layouts layouts(devices, placement);
  for (size_t i = 0; i < requests.size(); ++i) {
    const PlaceRequest& request = requests[i];
    const auto spots = placement.place(layouts, request);
    for (const policy::Spot& spot : spots)
      spot.device->place({.id = ids[i],
                          .quota = request.quota.request,
                          .memory = request.memory,
                          .movable = true,
                          .limit = request.quota.limit},
                         spot.opening);
    outcome.placed += !spots.empty();
  }
  outcome.ms = cpu_ms() - begin;
  for (size_t d = 0; d < layouts.size(); ++d) outcome.used += std::as_const(layouts)[d].used();
  return outcome;
}

void measure(Report& report, const Placement& placement, const std::string& what,
             const std::vector<Device>& devices, const std::vector<PlaceRequest>& requests,
             int rounds) {
  std::vector<InstanceId> ids;
  for (size_t i = 0; i < requests.size(); ++i) ids.push_back("function-" + std::to_string(i));
  std::vector<double> ms;
  Outcome last;
  for (int round = 0; round < rounds; ++round) {
    last = place_all(placement, devices, requests, ids);
    ms.push_back(last.ms);
  }
  const Samples samples = summarise(ms);
  const std::string name = std::string(placement.name) + ": " + what;
  report.add(Row(name, samples.p50, "ms")
                 .beside("Dilu, as printed, ms", kDiluMs)
                 .of(samples)
                 .at_most(kGoalMs));
  report.note(name + ": " + std::to_string(last.placed) + " of " + std::to_string(requests.size()) +
              " on " + std::to_string(last.used) + " devices.");
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("schedule", argc, argv);
  const int rounds = std::max(1, int_argument(argc, argv, "--rounds", 5));
  std::string list;
  for (int k = 1; k + 1 < argc; ++k)
    if (argv[k] == std::string_view("--instances")) list = argv[k + 1];
  const auto all = devices();
  const auto mixed = requests(), from_list = listed(list);
  for (const sluice::policy::Placement& placement : sluice::policy::placements()) {
    measure(report, placement, "3,200 instances onto 4,000 devices", all, mixed, rounds);
    if (!from_list.empty()) measure(report, placement, "Dilu's list", all, from_list, rounds);
  }
  return report.finish();
}
