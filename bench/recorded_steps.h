// Step times and collectives measured elsewhere, as the models of src/predict take them: the
// profiles of the Pollux artifact (six models on T4), ElasticFlow's tables (A100, T4) and published
// outputs of nccl-tests, all as CSV. Each reader returns what it reads by name, or an error that
// names the line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "predict/collective.h"
#include "predict/step_fit.h"

namespace sluice::bench {

using StepsByName = std::map<std::string, std::vector<predict::StepSample>>;
using CollectivesByName = std::map<std::string, std::vector<predict::CollectiveSample>>;

// placements.csv and scalability.csv of `folder`, together, by application.
Result<StepsByName> read_pollux(const std::string& folder);

// throughputs.csv of `folder`, by "GPU model". It has no synchronisation times.
Result<StepsByName> read_elasticflow(const std::string& folder);

// nccl_tests.csv of `folder`: all-reduces out of place, by configuration.
Result<CollectivesByName> read_nccl(const std::string& folder);

}  // namespace sluice::bench
