// Which samples a step uses, and which of them each rank: functions of the job's seed and position
// alone, so that any set of workers agrees on them without a message. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::train {

// How far a job has come. A worker's parameters and its position change together, at the end of a
// step: that is why a step done again, or parameters taken back, never use a sample twice.
struct JobPosition {
  int64_t step = 0;    // steps that the parameters have taken
  int64_t epoch = 0;   // whole epochs before this one
  int64_t sample = 0;  // of this epoch's order, the first that was not used

  bool operator==(const JobPosition&) const = default;
};

// An epoch's order of the samples 0 … count−1: a permutation that depends on the seed and the
// epoch.
std::vector<uint32_t> epoch_order(uint64_t seed, int64_t epoch, uint32_t count);

// A half-open range of positions in an epoch's order.
struct SampleRange {
  int64_t begin = 0, end = 0;

  int64_t count() const { return end - begin; }
  bool operator==(const SampleRange&) const = default;
};

// Returns the samples of the step at `at`: `batch` of them, fewer at the end of an epoch. A step of
// a batch above 1 never leaves a single sample, of which batch normalization has no variance: where
// one would remain, this step has one fewer, or, of a batch of 2, one more.
SampleRange step_range(const JobPosition& at, int64_t batch, int64_t samples);

// Returns how many of the ranks have a part of a step: as many as get `least` samples each, the
// first ones; at least one.
int parts(const SampleRange& step, int world, int least);

// Returns a rank's part of a step: parts differ by one sample at most. Ranks behind the last part
// have an empty one.
SampleRange shard(const SampleRange& step, int rank, int world, int least);

// Returns the position after that step.
JobPosition after(const JobPosition& at, const SampleRange& step, int64_t samples);

}  // namespace sluice::train
