// Estimates for models that were never measured here: by their operators and the built-in weights
// of a type of device. They are stored as `sluice profile` stores what it measured, and a
// measurement replaces them.
#pragma once

#include <vector>

#include "cli/files.h"
#include "cli/session.h"
#include "learn/weights_json.h"
#include "model/operator_graph.h"

namespace sluice::cli {

// Returns the configurations up to a batch on devices of a type, with estimated times. `size`: of a
// CPU device, against the measured one; kNone: it is a GPU.
std::vector<MeasuredPoint> estimated_points(const learn::Learned& learned,
                                            const OperatorGraph& graph, int most, Share size);

// Stores an estimate of each inference function's model for each type of device of the platform
// that has weights, where nothing is stored of the model. One that cannot be estimated is named on
// standard error, with why: policies then hold it by their rule for unmeasured models.
void estimate_models(const Session& session, const std::vector<FunctionFile>& files);

}  // namespace sluice::cli
