// Plot: lines over time, as an SVG text that a browser and a page of docs show. The same plot gives
// the same bytes. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"

namespace sluice::sim {

struct PlotPoint {
  Nanos at{};  // from the left edge on
  double value = 0;
};

struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;  // by time
  bool steps = true;              // holds each value until the next; else straight between them
};

struct Plot {
  std::string title;
  std::string unit;  // of the values
  std::vector<PlotLine> lines;
};

// Panels of one width, one below the other, over one axis of time. At most 2,000 points of a line
// are drawn; of those between, the largest counts.
std::string to_svg(const std::vector<Plot>& panels);

}  // namespace sluice::sim
