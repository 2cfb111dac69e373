// gpu_priority: how long a kernel of 4 us takes, from its launch to its end, beside a neighbour
// whose kernels fill the device: as clients of equal priority, in a stream of the highest priority,
// and beside a client of MPS below it (CUDA_MPS_CLIENT_PRIORITY); what remains for that one beside
// a greedy program; and among several that launch as eager programs do. Without MPS priorities
// change nothing: then it shows time slicing.
//
//   gpu_priority [--ms N]     of each row (500)
#include <cstdio>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/contention.h"
#include "bench/report.h"

namespace sluice::bench {
namespace {

constexpr uint64_t kKernelNs = 4000;

// kernels: the neighbour's, a second.
void print(const char* how, const std::vector<double>& us, double kernels) {
  std::printf("  %-34s %6zu %8.1f %8.1f %8.1f %8.1f %10.0f\n", how, us.size(), percentile(us, .5),
              percentile(us, .95), percentile(us, .99), percentile(us, 1), kernels);
  std::fflush(stdout);
}

// Runs `ours` beside the neighbour at work. Returns the neighbour's kernels a second, and the
// seconds that it took.
template <class Ours>
std::pair<double, double> beside(Neighbour& neighbour, const Load& load, Ours ours) {
  neighbour.work(load);
  const uint64_t began = now_ns();
  ours();
  const double kernels = static_cast<double>(neighbour.kernels());
  const double seconds = static_cast<double>(now_ns() - began) / 1e9;
  neighbour.rest();
  return {kernels / seconds, seconds};
}

void one_at_a_time(Neighbour& neighbour, const Load& load, Probe& probe, uint64_t for_ns,
                   const char* how) {
  std::vector<double> us;
  const double theirs = beside(neighbour, load, [&] { us = probe.one_at_a_time(for_ns); }).first;
  print(how, us, theirs);
}

// Neither's queue runs dry.
void both_greedy(Neighbour& neighbour, const Load& load, Probe& probe, uint64_t for_ns,
                 const char* how) {
  size_t ours = 0;
  const auto [theirs, seconds] =
      beside(neighbour, load, [&] { ours = probe.launch_every(0, for_ns).size(); });
  std::printf("  %-34s ours/s %.0f, the neighbour's %.0f\n", how,
              static_cast<double>(ours) / seconds, theirs);
  std::fflush(stdout);
}

void among_eager(std::deque<Neighbour>& others, Probe& probe, uint64_t for_ns) {
  for (Neighbour& other : others) other.work({1, 256, 0, 4'000, 20'000});
  const std::string how = std::to_string(others.size()) + " others";
  print(how.c_str(), probe.one_at_a_time(for_ns), 0);
  for (Neighbour& other : others) other.rest();
}

void measure(uint64_t for_ns) {
  Neighbour equal, below(true);
  std::deque<Neighbour> few(3), many(7);
  const Gpu gpu;
  const unsigned sms = gpu.sms();
  const struct {
    const char* name;
    Load load;
  } kNeighbours[] = {{"blocks of 100 us, all at once", {2 * sms, 1024, 0, 100'000}},
                     {"blocks of 50 us, eight rounds", {16 * sms, 1024, 0, 50'000}},
                     {"blocks of 50 us, eight rounds, as a gemm: 256 threads, 160 KiB",
                      {8 * sms, 256, 160 << 10, 50'000}},
                     {"blocks of 2 ms, all at once", {2 * sms, 1024, 0, 2'000'000}},
                     {"one block of 10 us each 1 ms", {1, 256, 0, 10'000, 1'000'000}},
                     {"one block of 4 us each 20 us", {1, 256, 0, 4'000, 20'000}}};
  std::printf("%s; us from launch to end of a kernel of 4 us\n", gpu.name().c_str());
  for (const unsigned blocks : {1u, sms}) {
    Probe usual(gpu, blocks, 256, kKernelNs), above(gpu, blocks, 256, kKernelNs, true);
    std::printf(
        "of %u blocks%24s launches  p50      p95      p99      max  neighbour's kernels/s\n",
        blocks, "");
    print("alone", usual.one_at_a_time(for_ns), 0);
    for (const auto& [name, load] : kNeighbours) {
      std::printf(" beside %s\n", name);
      one_at_a_time(equal, load, usual, for_ns, "equal");
      one_at_a_time(equal, load, above, for_ns, "in a stream of high priority");
      one_at_a_time(below, load, usual, for_ns, "the neighbour a client below");
    }
  }
  const Load load = kNeighbours[0].load;
  Probe probe(gpu, load.blocks, load.threads, load.block_ns);
  std::printf("both greedy, kernels of 100 us that fill the device\n");
  both_greedy(equal, load, probe, for_ns, "equal");
  both_greedy(below, load, probe, for_ns, "the neighbour a client below");
  Probe usual(gpu, 1, 256, kKernelNs);
  std::printf("of one block, among so many that launch a block of 4 us each 20 us\n");
  among_eager(few, usual, for_ns);
  among_eager(many, usual, for_ns);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  sluice::bench::measure(
      1'000'000ull * static_cast<uint64_t>(sluice::bench::int_argument(argc, argv, "--ms", 500)));
}
