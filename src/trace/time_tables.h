// Times of models recorded elsewhere, over batch, sm and quota. Two published formats, plain or
// gzipped:
//
//   RaPP   columns model, batch, sm_pct, quota_pct, latency_ms; of many models
//   Dilu   no header; batch, sm in percent, seconds of a batch, and perhaps inferences a second; of
//          one model, whose name is the file's
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/predictor.h"

namespace sluice::trace {

struct TimeTable {
  std::string model;
  std::vector<MeasuredPoint> points;  // as they stand there; no two of one configuration
};

// Returns at least one table, by model. An error names the file and the line.
Result<std::vector<TimeTable>> read_time_tables(const std::string& path);

}  // namespace sluice::trace
