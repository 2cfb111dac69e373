#include "sim/svg.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace sluice::sim::svg {
namespace {

constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                 "#e69f00", "#56b4e9", "#000000"};

// A whole number of seconds, minutes or hours, of which about `ticks` fit in `span`.
double tick_of(double span, int ticks) {
  for (const double tick : {1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400})
    if (span / tick <= ticks) return tick;
  return std::ceil(span / ticks / 14400) * 14400;
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

}  // namespace

const char* colour(size_t number) {
  return kColours[number % kColours.size()];
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

std::string pixel(double at) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", at);
  return text;
}

std::string head(int width, int height) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + std::to_string(width) +
         "\" height=\"" + std::to_string(height) +
         "\" font-family=\"sans-serif\" font-size=\"12\" stroke-width=\"1.3\">\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
}

std::string text(double x, double y, const char* anchor, const std::string& words) {
  return "<text x=\"" + pixel(x) + "\" y=\"" + pixel(y) + "\" text-anchor=\"" + anchor + "\">" +
         escaped(words) + "</text>\n";
}

std::string rule(double x1, double y1, double x2, double y2) {
  return "<path d=\"M" + pixel(x1) + " " + pixel(y1) + "L" + pixel(x2) + " " + pixel(y2) +
         "\" stroke=\"#ddd\"/>\n";
}

std::string box(double x1, double y1, double x2, double y2, const std::string& colour) {
  return "<rect x=\"" + pixel(x1) + "\" y=\"" + pixel(y1) + "\" width=\"" + pixel(x2 - x1) +
         "\" height=\"" + pixel(y2 - y1) + "\" fill=\"" + colour + "\"/>\n";
}

std::string time_axis(double end_seconds, double left, double right, double top, double bottom,
                      int ticks) {
  std::string out;
  const double tick = tick_of(end_seconds, ticks);
  for (int k = 0; k * tick <= end_seconds; ++k) {
    const double x = left + k * tick / end_seconds * (right - left);
    out += rule(x, top, x, bottom) + text(x, bottom + 20, "middle", clock_text(k * tick));
  }
  return out;
}

}  // namespace sluice::sim::svg
