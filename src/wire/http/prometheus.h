// Prometheus' text format 0.0.4, for any part that exports metrics. Written here, because the usual
// library brings an HTTP server and a client along to print these lines.
//
// Values; any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/size_histogram.h"

namespace sluice::wire {

using MetricLabels = std::vector<std::pair<std::string_view, std::string>>;
std::string metric_number(double value);  // "0.25", "+Inf"
MetricLabels with(MetricLabels labels, std::string_view key, std::string text);

// One family: its header, then its samples. `out` outlives it.
class MetricFamily {
 public:
  enum class Type { kCounter, kGauge, kHistogram };
  MetricFamily(std::string& out, std::string_view name, Type type, std::string_view help);

  void add(const MetricLabels& labels, double value) { add("", labels, value); }
  // In seconds: buckets from 1 ms to 30 s, sum and count.
  void add(const MetricLabels& labels, const Histogram& durations);
  // In bytes: buckets from 256 B to 64 MiB, sum and count.
  void add(const MetricLabels& labels, const SizeHistogram& sizes);

 private:
  void add(std::string_view suffix, const MetricLabels& labels, double value);

  std::string& out_;
  const std::string name_;
};

}  // namespace sluice::wire
