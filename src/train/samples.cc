#include "train/samples.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/random.h"

namespace sluice::train {

std::vector<uint32_t> epoch_order(uint64_t seed, int64_t epoch, uint32_t count) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  // The golden ratio's bits keep the streams of neighbouring epochs and seeds apart.
  Random random(seed + static_cast<uint64_t>(epoch + 1) * 0x9e3779b97f4a7c15ULL);
  for (uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

SampleRange step_range(const JobPosition& at, int64_t batch, int64_t samples) {
  const int64_t left = samples - at.sample;
  int64_t count = std::min(batch, left);
  if (batch > 1 && left - count == 1) count += batch > 2 ? -1 : 1;
  return {at.sample, at.sample + count};
}

int parts(const SampleRange& step, int world, int least) {
  return static_cast<int>(std::clamp<int64_t>(step.count() / std::max(1, least), 1, world));
}

SampleRange shard(const SampleRange& step, int rank, int world, int least) {
  const int count = parts(step, world, least);
  if (rank >= count) return {step.end, step.end};
  const int64_t each = step.count() / count, more = step.count() % count;
  const int64_t begin = step.begin + rank * each + std::min<int64_t>(rank, more);
  return {begin, begin + each + (rank < more ? 1 : 0)};
}

JobPosition after(const JobPosition& at, const SampleRange& step, int64_t samples) {
  JobPosition next{at.step + 1, at.epoch, step.end};
  if (next.sample >= samples) next = {next.step, at.epoch + 1, 0};
  return next;
}

}  // namespace sluice::train
