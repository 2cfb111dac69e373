// What a program asked of a GPU, recorded once (bench/gpu/record_launches.py) and played again on
// the emulated one. A text of one item a line; kernels, graphs and streams are numbered from 0 in
// the order in which they appear:
//
//   trace sms=132                            the device it was recorded on, first of all
//   kernel blocks=512 ns=41200 NAME…         how long it took there; a name may have blanks
//   graph 0 0 1 0                            the kernels of a graph, one after the other
//   launch kernel=0 stream=0 gap=2100        `gap`: ns of the host since its last call returned
//   launch graph=0 stream=0 gap=900
//   copy to bytes=602112 stream=1 gap=300    also: from, within (the device), set
//   sync gap=50                              waits for everything
//
// '#' begins a comment line. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::emulator {

struct TraceKernel {
  std::string name;
  std::uint32_t blocks = 1;
  std::uint64_t ns = 0;  // on the device of the record, all of its SMs free
};

struct TraceStep {
  enum class Kind { kKernel, kGraph, kCopyTo, kCopyFrom, kCopyWithin, kSet, kSync };
  Kind kind = Kind::kSync;
  std::uint32_t what = 0;    // which kernel or graph
  std::uint32_t stream = 0;  // below `streams`
  std::uint64_t bytes = 0;
  std::uint64_t gap_ns = 0;
};

struct LaunchTrace {
  std::uint32_t sms = 0;
  std::uint32_t streams = 0;
  std::vector<TraceKernel> kernels;
  std::vector<std::vector<std::uint32_t>> graphs;
  std::vector<TraceStep> steps;
};

// False: `why` names the line, the word and what is allowed.
bool read_trace(std::string_view text, LaunchTrace& trace, std::string& why);

// The trace's kernels as a program of the emulated device, "k0", "k1", …: on as many SMs as it was
// recorded on each takes what it took there, on fewer accordingly longer.
std::string module_of(const LaunchTrace& trace);

}  // namespace sluice::emulator
