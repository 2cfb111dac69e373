// Pieces of an SVG text that the plots share. Pure.
#pragma once

#include <string>

namespace sluice::sim::svg {

// One that people with colour blindness can tell from its neighbours (Okabe and Ito).
const char* colour(size_t number);
std::string escaped(const std::string& text);
std::string pixel(double at);  // "12.5"
// The document's beginning: its size, the font, a white ground.
std::string head(int width, int height);
// `anchor`: "start", "middle" or "end" of the text is at x.
std::string text(double x, double y, const char* anchor, const std::string& text);
std::string rule(double x1, double y1, double x2, double y2);
std::string box(double x1, double y1, double x2, double y2, const std::string& colour);
// Rules from `top` to `bottom` at about `ticks` whole times of 0 … end, and these times below.
std::string time_axis(double end_seconds, double left, double right, double top, double bottom,
                      int ticks);

}  // namespace sluice::sim::svg
