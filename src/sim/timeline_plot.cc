#include "sim/timeline_plot.h"

#include <algorithm>
#include <utility>

namespace sluice::sim {
namespace {

void append(std::vector<PlotPoint>& points, int64_t second, double value) {
  points.push_back({Seconds(second), value});
}

}  // namespace

void TimelinePlot::add(const TimelineRow& row) {
  Function& f = functions_[row.function];
  f.arrivals += row.arrivals;
  append(f.load, row.second, static_cast<double>(row.arrivals));
  append(f.instances, row.second, row.instances);
  append(f.held, row.second, static_cast<double>(row.area) / 1e6);
  append(f.p95, row.second, millis(row.p95));
  if (devices_.empty() || devices_.back().at < Seconds(row.second))
    append(devices_, row.second, row.devices);
}

std::vector<const TimelinePlot::Function*> TimelinePlot::largest() const {
  std::vector<const Function*> all;
  for (const auto& [name, f] : functions_) all.push_back(&f);
  if (all.size() <= kMostFunctions) return all;
  std::vector<const Function*> by_size = all;
  std::ranges::stable_sort(by_size, std::ranges::greater(), [](auto* f) { return f->arrivals; });
  by_size.resize(kMostFunctions);
  std::erase_if(all, [&](auto* f) { return std::ranges::count(by_size, f) == 0; });
  return all;
}

std::string TimelinePlot::svg() const {
  const std::vector<const Function*> drawn = largest();
  const auto panel = [&](const char* title, const char* unit, auto points) {
    Plot plot{title, unit, {}};
    for (const auto& [name, f] : functions_)
      if (std::ranges::count(drawn, &f) > 0) plot.lines.push_back({name.name, f.*points});
    return plot;
  };
  return to_svg({panel("load", "requests/s", &Function::load),
                 panel("instances", "", &Function::instances),
                 panel("held", "devices: Σ sm × request", &Function::held),
                 panel("latency, p95 of each second", "ms", &Function::p95),
                 {"devices in use", "", {{"devices", devices_}}}});
}

}  // namespace sluice::sim
