// gpu_slicing: the driver's time slicing between two contexts. One launches a kernel of 4 us every
// so many us, as an eager program does; the other has work at all times and writes down when it was
// not running. So from the device's own clock: how long a slice is, what a switch costs, and how
// long a context keeps its slice whose queue has run dry.
//
//   gpu_slicing [--ms N] [--raw FILE]
//
// --ms: of each row (400). --raw: every gap and every kernel, to look closer.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/gpu/contention.h"
#include "bench/report.h"

namespace sluice::bench {
namespace {

struct Way {
  uint64_t kernel_us, period_us;  // 0: without a pause, so that its queue never runs dry
};
constexpr Way kWays[] = {{50, 0}, {4, 10}, {4, 20}, {4, 50}, {4, 100}, {4, 200}, {4, 500}};

// What one gap of the neighbour tells, in us.
struct Slices {
  std::vector<double> gap;      // from the neighbour's last instruction to its next
  std::vector<double> first;    // from its last to the probe's first kernel: a switch
  std::vector<double> after;    // from the probe's last kernel to the neighbour's next instruction
  std::vector<double> dry;      // the longest pause between two kernels of the probe in it
  std::vector<double> between;  // from a gap's end to the next one: the neighbour's slice
  std::vector<double> kernels;
  double away = 0;  // all gaps
};

double us(uint64_t from, uint64_t to) {
  return (static_cast<double>(to) - static_cast<double>(from)) / 1000;
}

Slices slices_of(const std::vector<Gap>& gaps, const std::vector<Probe::Stamp>& stamps) {
  Slices s;
  auto at = stamps.begin();
  uint64_t gap_before = 0;
  for (const Gap& gap : gaps) {
    while (at != stamps.end() && at->begin_ns < gap.begin_ns) ++at;
    const auto first = at;
    double dry = 0;
    for (; at != stamps.end() && at->end_ns <= gap.end_ns; ++at)
      if (at != first) dry = std::max(dry, us((at - 1)->end_ns, at->begin_ns));
    if (at == first) continue;  // not the probe's: between two kernels of the neighbour
    s.gap.push_back(us(gap.begin_ns, gap.end_ns));
    s.first.push_back(us(gap.begin_ns, first->begin_ns));
    s.after.push_back(us((at - 1)->end_ns, gap.end_ns));
    s.kernels.push_back(static_cast<double>(at - first));
    s.dry.push_back(dry);
    if (gap_before != 0) s.between.push_back(us(gap_before, gap.begin_ns));
    gap_before = gap.end_ns;
    s.away += s.gap.back();
  }
  return s;
}

void print(const Way& way, const Slices& s, double passed_us) {
  if (way.period_us == 0)
    std::printf("  %3lu us, no pause ", way.kernel_us);
  else
    std::printf("  %3lu us every %3lu", way.kernel_us, way.period_us);
  std::printf(" %6.0f", 1e6 * static_cast<double>(s.gap.size()) / passed_us);
  for (const auto& [values, p] : {std::pair{&s.gap, .5},
                                  {&s.gap, .95},
                                  {&s.kernels, .5},
                                  {&s.first, .5},
                                  {&s.first, .95},
                                  {&s.dry, .5},
                                  {&s.dry, .99},
                                  {&s.after, .05},
                                  {&s.after, .5},
                                  {&s.after, .95},
                                  {&s.between, .05},
                                  {&s.between, .5},
                                  {&s.between, .95}})
    std::printf(" %6.0f", percentile(*values, p));
  std::printf(" %6.1f\n", 100 * (1 - s.away / passed_us));
  std::fflush(stdout);
}

void write_raw(std::FILE* file, const char* name, const Way& way, const std::vector<Gap>& gaps,
               const std::vector<Probe::Stamp>& stamps) {
  std::fprintf(file, "case %lu us every %lu beside %s\n", way.kernel_us, way.period_us, name);
  const uint64_t zero = stamps.empty() ? 0 : stamps[0].begin_ns;
  for (const Gap& g : gaps)
    std::fprintf(file, "gap %ld %ld\n", static_cast<long>(g.begin_ns - zero),
                 static_cast<long>(g.end_ns - g.begin_ns));
  for (const Probe::Stamp& s : stamps)
    std::fprintf(file, "kernel %ld %ld\n", static_cast<long>(s.begin_ns - zero),
                 static_cast<long>(s.end_ns - s.begin_ns));
}

void measure(uint64_t ms, std::FILE* raw) {
  Neighbour neighbour;
  const Gpu gpu;
  const unsigned sms = gpu.sms();
  const struct {
    const char* name;
    Load load;
  } kNeighbours[] = {{"one block, kernels of 20 ms", {1, 32, 0, 20'000'000}},
                     {"all SMs full, kernels of 100 us", {2 * sms, 1024, 0, 100'000}},
                     {"all SMs full, kernels of 20 ms", {2 * sms, 1024, 0, 20'000'000}}};
  std::printf("%s; us on the device's clock; p50 where nothing else is said\n", gpu.name().c_str());
  for (const auto& [name, load] : kNeighbours) {
    std::printf(
        "beside %s\n  launched          gaps/s  gap    p95 kernels first  p95    dry    p99"
        "   after: 5  50     95 between: 5  50  95  neighbour %%\n",
        name);
    for (const Way& way : kWays) {
      Probe probe(gpu, 1, 32, way.kernel_us * 1000);
      neighbour.work(load);
      const uint64_t began = now_ns();
      const auto stamps = probe.launch_every(way.period_us * 1000, ms * 1'000'000);
      const double passed_us = us(began, now_ns());
      const auto gaps = neighbour.gaps();
      neighbour.rest();
      print(way, slices_of(gaps, stamps), passed_us);
      if (raw != nullptr) write_raw(raw, name, way, gaps, stamps);
    }
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const std::string path = text_argument(argc, argv, "--raw");
  std::FILE* raw = path.empty() ? nullptr : std::fopen(path.c_str(), "w");
  measure(static_cast<uint64_t>(int_argument(argc, argv, "--ms", 400)), raw);
  if (raw != nullptr) std::fclose(raw);
}
