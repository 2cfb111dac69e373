#include "sim/gantt.h"

#include <algorithm>

#include "sim/svg.h"

namespace sluice::sim {
namespace {

// Pixels.
struct Layout {
  static constexpr int kWidth = 1000, kLeft = 120, kRight = 160, kTop = 24, kBottom = 30;
  static constexpr int kRow = 7, kBetween = 5;  // of a device, and between nodes
};
constexpr size_t kMostNames = 40;  // in the legend

}  // namespace

void Gantt::extend(Bars& bars, Nanos passed) const {
  if (bars.empty() || bars.back().end < last_) bars.push_back({last_, passed});
  bars.back().end = passed;
}

void Gantt::add(Nanos passed, const std::vector<Occupant>& now, const std::set<std::string>& lent) {
  for (const Occupant& o : now) {
    devices_[o.node].insert(o.device);
    extend(occupied_[{o.device, o.function}], passed);
    if (o.trains) jobs_.insert(o.function);
  }
  for (const std::string& node : lent) extend(lent_[node], passed);
  last_ = passed;
}

std::string Gantt::svg() const {
  std::map<std::string, std::string> colours;
  for (const std::string& job : jobs_) colours[job] = svg::colour(colours.size());
  const double end_s = std::max(seconds(last_), 1.0);
  const auto x = [&](Nanos at) {
    return Layout::kLeft + seconds(at) / end_s * (Layout::kWidth - Layout::kLeft - Layout::kRight);
  };
  std::string bars;
  double y = Layout::kTop;
  size_t drawn = 0;
  for (const auto& [node, devices] : devices_) {
    if (drawn + devices.size() > kMostDevices) break;
    drawn += devices.size();
    const double height = Layout::kRow * static_cast<double>(devices.size());
    if (const auto lent = lent_.find(node); lent != lent_.end())
      for (const Bar& bar : lent->second)
        bars += svg::box(x(bar.begin), y - 1, x(bar.end), y + height + 1, "#f7e89c");
    bars += svg::text(Layout::kLeft - 6, y + height / 2 + 4, "end", node);
    for (const DeviceId& device : devices) {
      for (auto i = occupied_.lower_bound({device, ""});
           i != occupied_.end() && i->first.first == device; ++i) {
        const auto job = colours.find(i->first.second);
        for (const Bar& bar : i->second)
          bars += svg::box(x(bar.begin), y + 0.5, x(bar.end), y + Layout::kRow - 0.5,
                           job == colours.end() ? "#999" : job->second);
      }
      y += Layout::kRow;
    }
    y += Layout::kBetween;
  }
  const double height =
      std::max(
          y, Layout::kTop + 15.0 * static_cast<double>(std::min(colours.size() + 2, kMostNames))) +
      Layout::kBottom;
  std::string out = svg::head(Layout::kWidth, static_cast<int>(height));
  out += svg::time_axis(end_s, Layout::kLeft, Layout::kWidth - Layout::kRight, Layout::kTop - 4, y,
                        12);
  out += bars;
  double line = Layout::kTop + 8;
  const auto name = [&](const std::string& colour, const std::string& what) {
    out += svg::box(Layout::kWidth - Layout::kRight + 10, line - 8,
                    Layout::kWidth - Layout::kRight + 20, line + 2, colour) +
           svg::text(Layout::kWidth - Layout::kRight + 26, line + 1, "start", what);
    line += 15;
  };
  name("#999", "inference");
  if (!lent_.empty()) name("#f7e89c", "on loan to training");
  for (const auto& [job, colour] : colours) {
    if (line > height - Layout::kBottom || colours.size() > kMostNames) break;
    name(colour, job);
  }
  return out + "</svg>\n";
}

}  // namespace sluice::sim
