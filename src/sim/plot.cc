#include "sim/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace sluice::sim {
namespace {

constexpr int kWidth = 900, kPanel = 190, kAxis = 30;  // pixels
constexpr int kLeft = 70, kRight = 170, kTop = 28, kBottom = 14;
constexpr size_t kMostPoints = 2000;
// Colours that people with colour blindness can tell apart (Okabe and Ito).
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                 "#e69f00", "#56b4e9", "#000000"};

// One decimal at most: "12", "0.5".
std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", std::round(value * 1000) / 1000);
  return text;
}

std::string pixel(double at) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", at);
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

// 1, 2 or 5 times a power of ten, of which about `ticks` fit in `span`.
double tick_of(double span, int ticks) {
  const double power = std::pow(10, std::floor(std::log10(span / ticks)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (span / (factor * power) <= ticks) return factor * power;
  return 10 * power;
}

// The same for time: whole seconds, minutes or hours.
double seconds_tick_of(double span, int ticks) {
  for (const double tick : {1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400})
    if (span / tick <= ticks) return tick;
  return tick_of(span, ticks);
}

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::llround(seconds));
  char text[32];
  if (s < 3600)
    std::snprintf(text, sizeof text, "%d:%02d", static_cast<int>(s / 60), static_cast<int>(s % 60));
  else
    std::snprintf(text, sizeof text, "%d:%02d h", static_cast<int>(s / 3600),
                  static_cast<int>(s / 60 % 60));
  return text;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + pixel(x) + "\" y=\"" + pixel(y) + "\" text-anchor=\"" + anchor + "\">" +
         escaped(text) + "</text>\n";
}

std::string rule(double x1, double y1, double x2, double y2) {
  return "<path d=\"M" + pixel(x1) + " " + pixel(y1) + "L" + pixel(x2) + " " + pixel(y2) +
         "\" stroke=\"#ddd\"/>\n";
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
    if (!path.empty() && line.steps) path += "L" + pixel(x) + " " + pixel(y);
    y = frame.y(p.value);
    path += (path.empty() ? "M" : "L") + pixel(x) + " " + pixel(y);
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
  return kColours[static_cast<size_t>(at) % kColours.size()];
}

std::string panel(const Plot& plot, Frame frame, const std::vector<std::string>& names) {
  frame.most = 0;
  for (const PlotLine& line : plot.lines)
    for (const PlotPoint& p : line.points) frame.most = std::max(frame.most, p.value);
  if (frame.most <= 0) frame.most = 1;
  std::string out = text_at(kLeft, frame.top + 18, "start",
                            plot.title + (plot.unit.empty() ? "" : " (" + plot.unit + ")"));
  const double tick = tick_of(frame.most, 5);
  for (int k = 0; k * tick <= frame.most * 1.0001; ++k) {
    const double y = frame.y(k * tick);
    out += rule(kLeft, y, kWidth - kRight, y);
    out += text_at(kLeft - 6, y + 4, "end", shown(k * tick));
  }
  for (size_t k = 0; k < plot.lines.size(); ++k) {
    const char* colour = colour_of(names, plot.lines[k].name);
    out += curve(frame, plot.lines[k], colour);
    const double y = frame.top + kTop + 10 + 15.0 * static_cast<double>(k);
    if (y > frame.top + kPanel) continue;
    out += "<g fill=\"" + std::string(colour) + "\">" +
           text_at(kWidth - kRight + 8, y, "start", plot.lines[k].name) + "</g>\n";
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
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + std::to_string(kWidth) +
                    "\" height=\"" + std::to_string(height) +
                    "\" font-family=\"sans-serif\" font-size=\"12\" stroke-width=\"1.3\">\n"
                    "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  Frame frame{.top = 0, .end_s = seconds(end), .most = 1};
  const double tick = seconds_tick_of(frame.end_s, 9);
  for (int k = 0; k * tick <= frame.end_s; ++k) {
    const double x = frame.x(from_seconds(k * tick));
    out += rule(x, kTop, x, height - kAxis);
    out += text_at(x, height - 10, "middle", clock_text(k * tick));
  }
  const std::vector<std::string> names = names_in(panels);
  for (const Plot& plot : panels) {
    out += panel(plot, frame, names);
    frame.top += kPanel;
  }
  return out + "</svg>\n";
}

}  // namespace sluice::sim
