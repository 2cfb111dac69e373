// Which points of a folder of latencies a predictor learns from, is told of as a short profile, or
// is judged by.
#pragma once

#include <functional>

#include "predict/work_model.h"
#include "trace/latency_data.h"

namespace sluice::learn {

// The short profile that the data has of a model: the sums of its operators' times, and the points
// at `kProfiledBatch` with the whole sm under `kProfiledQuotas`. Where no operator was timed, the
// points of batch 1 without a quota stand for these sums.
inline constexpr int kProfiledBatch = 4;
inline constexpr Share kProfiledQuotas[] = {Share{200}, Share{400}, Share{600}, Share{800}, kWhole};
predict::ShortProfile profile_of(const trace::LatencyData& data, const trace::LatencyModel& model);
// Whether it is complete.
bool has_profile(const trace::LatencyData& data, const trace::LatencyModel& model);
bool is_profiled(const trace::LatencyData& data, const Configuration& c);

// One point to learn.
using Chosen = std::function<bool(const trace::LatencyModel&, const trace::LatencyPoint&)>;

}  // namespace sluice::learn
