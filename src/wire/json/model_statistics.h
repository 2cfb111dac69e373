// A model's statistics, in the terms of Triton's statistics extension, and the report by which an
// instance sends the gateway its part, one answer at a time. The gateway sums the reports of all
// instances, so its figures outlive an instance.
//
// Plain values; not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace sluice::wire {

// The cost of computing one answer. It crosses in the header `Sluice-Compute`: "QUEUE; BATCH
// EXECUTIONS INPUT INFER OUTPUT", durations in nanoseconds, the last part once for each size of
// batch that the request's inferences ran in.
struct ComputeReport {
  struct Part {
    int batch = 0;  // inferences that ran together
    // Executions of that size that this answer reports; 0: another answer of the batch does.
    int executions = 0;
    Nanos input{0}, infer{0}, output{0};

    bool operator==(const Part&) const = default;
  };
  Nanos queue{0};  // wait at the instance
  std::vector<Part> parts;

  bool operator==(const ComputeReport&) const = default;
};
inline constexpr std::string_view kComputeHeader = "Sluice-Compute";
std::string to_text(const ComputeReport&);
// Returns nothing if the text is no such report, or its figures exceed an instance's bounds: a
// batch or executions above 1,024, a duration above an hour.
std::optional<ComputeReport> compute_report_from(std::string_view text);

struct Durations {
  uint64_t count = 0;
  Nanos total{0};

  // Adds the total duration of `of` events. The sum saturates.
  void add(Nanos duration, uint64_t of = 1) {
    count += of;
    total += std::min(duration, Nanos::max() - total);
  }
  bool operator==(const Durations&) const = default;
};

struct ModelStatistics {
  struct PerBatch {
    Durations input, infer, output;
    bool operator==(const PerBatch&) const = default;
  };
  UnixMillis last_inference = 0;
  uint64_t inferences = 0;
  uint64_t executions = 0;
  Durations success, fail, queue, input, infer, output;
  std::map<int, PerBatch> by_batch;  // of the first 256 sizes

  // A request was answered after `whole`, including its wait of `queue`.
  void succeeded(uint64_t of_inferences, Nanos whole, Nanos queue, const ComputeReport&);
  void failed(Nanos whole) { fail.add(whole); }

  bool operator==(const ModelStatistics&) const = default;
};

// One element of "model_stats".
nlohmann::json to_json(const std::string& name, const std::string& version, const ModelStatistics&);

}  // namespace sluice::wire
