// Fits WorkModel's rates: milliseconds by kind of work, none negative, that agree best with the
// measured times, as parts of these. For devices on which few models were measured: a network would
// learn these by heart.
#pragma once

#include "learn/points.h"
#include "predict/work_model.h"
#include "trace/latency_data.h"

namespace sluice::learn {

// Of the chosen points with the whole device. Deterministic.
// REQUIRES: some of them is chosen.
predict::WorkWeights fit_rates(const trace::LatencyData& data, const Chosen& chosen);

}  // namespace sluice::learn
