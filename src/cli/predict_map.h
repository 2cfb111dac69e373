// A picture of predicted latencies: sm to the right, quota upwards, one panel for each batch.
#pragma once

#include <string>

#include "base/result.h"
#include "predict/work_model.h"

namespace sluice::cli {

// Writes an SVG.
Result<void> write_heat_map(const std::string& path, const std::string& title,
                            const predict::WorkEstimate& estimate);

}  // namespace sluice::cli
