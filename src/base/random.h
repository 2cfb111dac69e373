// A seeded generator whose sequence is the same on every machine and compiler: xoshiro256** for the
// bits, and distributions of its own (those of the standard library differ between
// implementations). Not thread-safe; one generator per owner. The caller provides the seed, and
// tests print it.
#pragma once

#include <cstdint>

namespace sluice {

class Random {
 public:
  explicit Random(uint64_t seed);

  uint64_t next();                             // all 64 bits
  uint64_t below(uint64_t n);                  // 0 … n−1; n > 0
  int64_t between(int64_t low, int64_t high);  // low … high, both included
  double uniform();                            // [0, 1)
  bool chance(double p) { return uniform() < p; }
  double normal();  // mean 0, deviation 1
  double exponential(double mean);
  double gamma(double shape, double scale);  // Marsaglia and Tsang, 2000

 private:
  uint64_t state_[4];
};

}  // namespace sluice
