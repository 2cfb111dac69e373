// `sluice predict eval`: how far predictions are from a folder of measured latencies.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/session.h"

namespace sluice::cli {

struct PredictEval {
  std::string data, weights;  // weights: a file; empty: the built-in ones of `device`
  std::string device = "V100";
  std::string split;  // empty: all but `train`
};

Result<void> evaluate(const Session& session, const PredictEval& flags);

}  // namespace sluice::cli
