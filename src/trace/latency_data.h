// A folder of latencies measured elsewhere, with what each model computes. The files and columns
// are those that RaPP's V100 data was tabulated in, each plain or gzipped:
//
//   latency_ms.csv      model, batch, sm_pct, quota_pct, latency_ms
//   operators.csv       model, batch, node_index, exec_order, layer, kernel_h, stride_h, groups,
//                       in_shape_b1, out_shape_b1, macs_b1, params, and t_sm{S}_ms for some
//                       percentages S
//   edges.csv           model, src, dst; may be missing
//   graph_features.csv  model, family
//   split_seen.csv      model, batch, sm_pct, quota_pct, split; may be missing
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/operator_graph.h"
#include "model/predictor.h"

namespace sluice::trace {

struct LatencyPoint {
  Configuration at;
  double ms = 0;
  int split = -1;  // of LatencyData::splits

  bool operator==(const LatencyPoint&) const = default;
};

struct LatencyModel {
  std::string name, family;
  OperatorGraph graph;  // at batch 1
  // Of one inference at batch 1 with the whole quota, by operator and by sm of LatencyData::sms. 0:
  // unknown.
  std::vector<std::vector<double>> operator_ms;
  std::vector<LatencyPoint> points;  // by configuration
};

struct LatencyData {
  std::vector<Share> sms;            // ascending
  std::vector<std::string> splits;   // by name
  std::vector<LatencyModel> models;  // by name
};

// An error names the file, the line and the column: a missing column, a number that is none or out
// of range, a configuration that stands there twice, a model without operators or without a family.
Result<LatencyData> read_latency_data(const std::string& folder);

}  // namespace sluice::trace
