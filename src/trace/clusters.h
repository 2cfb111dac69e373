// Clusters and what ran on them, recorded elsewhere: Alibaba's GPU cluster of 2023 (openb) and
// Dilu's lists of instances. Pure but for the file that is read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/quantity.h"
#include "model/slice.h"

namespace sluice::trace {

// openb_node_list: sn, cpu_milli, memory_mib, gpu, model.
struct RecordedNode {
  std::string name;
  int millicores = 0;
  Bytes memory = 0;
  int gpus = 0;
  std::string gpu_model;

  bool operator==(const RecordedNode&) const = default;
};
Result<std::vector<RecordedNode>> read_openb_nodes(const std::string& path);

// What asked for GPUs, or for parts of one, and how long it ran.
struct RecordedJob {
  std::string name;
  std::string kind;  // "inference", "llm-inference", "training" (Dilu), the QoS class (openb)
  Nanos begin{};     // since the first one's
  std::optional<Nanos> end;  // nothing: it did not end in the record
  int gpus = 0;
  Share request, limit;       // of each GPU
  std::vector<Bytes> memory;  // of each GPU; empty: not recorded
  int millicores = 0;
  Bytes host_memory = 0;
  std::vector<std::string> gpu_models;  // that it may run on; empty: any

  bool operator==(const RecordedJob&) const = default;
};
// openb_pod_list: a GPU's share is in gpu_milli, for pods of one GPU. Some of the published lists
// state no GPU model (gpu_spec) or no times: such pods run on any GPU, and all begin at 0.
Result<std::vector<RecordedJob>> read_openb_pods(const std::string& path);
// A Python dictionary a line: {'Time': …, 'Action': 'start' or 'delete', 'Instance': {…}}.
Result<std::vector<RecordedJob>> read_dilu_instances(const std::string& path);

}  // namespace sluice::trace
