// How much of a virtual machine's processor time its host gave to others, by the kernel ("steal" of
// /proc/stat): figures that were taken meanwhile are that much worse, and no better ones are to be
// had there. Nothing says how much slower a processor was whose other half had work. Any thread.
#pragma once

#include <cstdint>
#include <istream>

namespace sluice::bench {

// Since the machine's start, of all its processors together.
struct ProcessorTime {
  uint64_t all = 0, stolen = 0;  // in ticks; zeros where the kernel does not tell
};
ProcessorTime read_processor_time(std::istream& stat);

// From its making on.
class StolenTime {
 public:
  StolenTime();
  double percent() const;

 private:
  ProcessorTime begin_;
};

}  // namespace sluice::bench
