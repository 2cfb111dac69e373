// The part of a virtual machine's processor time that its host gave to others, by the kernel
// ("steal" of /proc/stat). Figures taken meanwhile are that much worse, and cannot be better there.
// A processor slowed by work on its other half is not reported anywhere. Any thread.
#pragma once

#include <cstdint>
#include <istream>

namespace sluice::bench {

// Since the machine's start, of all its processors together.
struct ProcessorTime {
  uint64_t all = 0, stolen = 0;  // in ticks; zeros if the kernel does not report it
};
ProcessorTime read_processor_time(std::istream& stat);

// Measures from its construction on.
class StolenTime {
 public:
  StolenTime();
  double percent() const;

 private:
  ProcessorTime begin_;
};

}  // namespace sluice::bench
