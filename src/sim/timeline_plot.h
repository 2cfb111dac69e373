// TimelinePlot: a simulated timeline as panels of load, instances, quotas, latency and devices over
// time. Takes the rows as they come; draws the functions with the most requests. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/plot.h"
#include "sim/run.h"

namespace sluice::sim {

class TimelinePlot {
 public:
  static constexpr size_t kMostFunctions = 7;

  void add(const TimelineRow& row);
  std::string svg() const;

 private:
  struct Function {
    uint64_t arrivals = 0;
    std::vector<PlotPoint> load, instances, held, p95;
  };
  std::vector<const Function*> largest() const;  // by name

  std::map<FunctionName, Function> functions_;
  std::vector<PlotPoint> devices_;
};

}  // namespace sluice::sim
