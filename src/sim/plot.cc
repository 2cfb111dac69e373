#include "sim/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "sim/svg.h"

namespace sluice::sim {
namespace {

constexpr int kWidth = 900, kPanel = 190, kAxis = 30;  // pixels
constexpr int kLeft = 70, kRight = 170, kTop = 28, kBottom = 14;
constexpr size_t kMostPoints = 2000;

// One decimal at most: "12", "0.5".
std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", std::round(value * 1000) / 1000);
  return text;
}

// 1, 2 or 5 times a power of ten, of which about `ticks` fit in `span`.
double tick_of(double span, int ticks) {
  const double power = std::pow(10, std::floor(std::log10(span / ticks)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (span / (factor * power) <= ticks) return factor * power;
  return 10 * power;
}

// The line's points, thinned: of each stretch of equal length its largest value.
std::vector<PlotPoint> thinned(const PlotLine& line) {
  if (line.points.size() <= kMostPoints) return line.points;
  std::vector<PlotPoint> out;
  const size_t n = line.points.size();
  for (size_t k = 0; k < kMostPoints; ++k) {
    const auto begin = line.points.begin() + static_cast<std::ptrdiff_t>(k * n / kMostPoints);
    const auto end = line.points.begin() + static_cast<std::ptrdiff_t>((k + 1) * n / kMostPoints);
    out.push_back({begin->at, std::ranges::max_element(begin, end, {}, &PlotPoint::value)->value});
  }
  return out;
}

// Where a panel stands, and its scales.
struct Frame {
  double top = 0, end_s = 1, most = 1;

  double x(Nanos at) const { return kLeft + seconds(at) / end_s * (kWidth - kLeft - kRight); }
  double y(double value) const {
    return top + kPanel - kBottom - value / most * (kPanel - kTop - kBottom);
  }
};

std::string curve(const Frame& frame, const PlotLine& line, const char* colour) {
  std::string path;
  double y = 0;
  for (const PlotPoint& p : thinned(line)) {
    const double x = frame.x(p.at);
    if (!path.empty() && line.steps) path += "L" + svg::pixel(x) + " " + svg::pixel(y);
    y = frame.y(p.value);
    path += (path.empty() ? "M" : "L") + svg::pixel(x) + " " + svg::pixel(y);
  }
  return "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + colour + "\"/>\n";
}

// The names of all lines, in the order in which they first come; a name has one colour.
std::vector<std::string> names_in(const std::vector<Plot>& panels) {
  std::vector<std::string> names;
  for (const Plot& plot : panels)
    for (const PlotLine& line : plot.lines)
      if (std::ranges::find(names, line.name) == names.end()) names.push_back(line.name);
  return names;
}

const char* colour_of(const std::vector<std::string>& names, const std::string& name) {
  const auto at = std::ranges::find(names, name) - names.begin();
  return svg::colour(static_cast<size_t>(at));
}

std::string panel(const Plot& plot, Frame frame, const std::vector<std::string>& names) {
  frame.most = 0;
  for (const PlotLine& line : plot.lines)
    for (const PlotPoint& p : line.points) frame.most = std::max(frame.most, p.value);
  if (frame.most <= 0) frame.most = 1;
  std::string out = svg::text(kLeft, frame.top + 18, "start",
                              plot.title + (plot.unit.empty() ? "" : " (" + plot.unit + ")"));
  const double tick = tick_of(frame.most, 5);
  for (int k = 0; k * tick <= frame.most * 1.0001; ++k) {
    const double y = frame.y(k * tick);
    out += svg::rule(kLeft, y, kWidth - kRight, y);
    out += svg::text(kLeft - 6, y + 4, "end", shown(k * tick));
  }
  for (size_t k = 0; k < plot.lines.size(); ++k) {
    const char* colour = colour_of(names, plot.lines[k].name);
    out += curve(frame, plot.lines[k], colour);
    const double y = frame.top + kTop + 10 + 15.0 * static_cast<double>(k);
    if (y > frame.top + kPanel) continue;
    out += "<g fill=\"" + std::string(colour) + "\">" +
           svg::text(kWidth - kRight + 8, y, "start", plot.lines[k].name) + "</g>\n";
  }
  return out;
}

}  // namespace

std::string to_svg(const std::vector<Plot>& panels) {
  Nanos end = Seconds(1);
  for (const Plot& plot : panels)
    for (const PlotLine& line : plot.lines)
      if (!line.points.empty()) end = std::max(end, line.points.back().at);
  const int height = kPanel * static_cast<int>(panels.size()) + kAxis;
  Frame frame{.top = 0, .end_s = seconds(end), .most = 1};
  std::string out = svg::head(kWidth, height) +
                    svg::time_axis(frame.end_s, kLeft, kWidth - kRight, kTop, height - kAxis, 9);
  const std::vector<std::string> names = names_in(panels);
  for (const Plot& plot : panels) {
    out += panel(plot, frame, names);
    frame.top += kPanel;
  }
  return out + "</svg>\n";
}

}  // namespace sluice::sim
