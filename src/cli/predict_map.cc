#include "cli/predict_map.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "base/replace_file.h"
#include "cli/table.h"

namespace sluice::cli {
namespace {

constexpr int kBatches[] = {1, 2, 4, 8};
constexpr int kSteps = 10, kCell = 34, kMargin = 48, kPanel = kSteps * kCell + kMargin + 16;

struct Cell {
  int batch, sm, quota;  // percent
  double ms;
};

std::vector<Cell> cells_of(const predict::WorkEstimate& estimate) {
  std::vector<Configuration> all;
  for (const int batch : kBatches)
    for (int sm = 1; sm <= kSteps; ++sm)
      for (int quota = 1; quota <= kSteps; ++quota)
        all.push_back({batch, Share{sm * 100}, Share{quota * 100}});
  const std::vector<double> ms = estimate.ms(all);
  std::vector<Cell> cells;
  for (size_t i = 0; i < all.size(); ++i)
    cells.push_back({all[i].batch, all[i].sm.permille / 10, all[i].quota.permille / 10, ms[i]});
  return cells;
}

// From pale to dark blue as `part` goes from 0 to 1.
std::string colour(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "rgb(%d,%d,%d)", static_cast<int>(235 - 205 * part),
                static_cast<int>(243 - 170 * part), static_cast<int>(250 - 110 * part));
  return text;
}

std::string text_at(int x, int y, const std::string& anchor, const std::string& fill,
                    const std::string& text) {
  return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" text-anchor=\"" +
         anchor + "\" fill=\"" + fill + "\">" + text + "</text>\n";
}

std::string axes(int left, int top, int batch) {
  std::string out = text_at(left + kSteps * kCell / 2, top - 8, "middle", "black",
                            "batch " + std::to_string(batch) + ", ms");
  for (int i = 1; i <= kSteps; ++i) {
    const std::string share = std::to_string(i * 10) + "%";
    out +=
        text_at(left + i * kCell - kCell / 2, top + kSteps * kCell + 14, "middle", "#555", share);
    out += text_at(left - 4, top + (kSteps - i) * kCell + kCell / 2 + 4, "end", "#555", share);
  }
  out += text_at(left + kSteps * kCell / 2, top + kSteps * kCell + 28, "middle", "#555", "sm");
  return out + text_at(left - 4, top - 8, "end", "#555", "quota");
}

}  // namespace

Result<void> write_heat_map(const std::string& path, const std::string& title,
                            const predict::WorkEstimate& estimate) {
  const std::vector<Cell> cells = cells_of(estimate);
  const auto [least, most] = std::minmax_element(
      cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.ms < b.ms; });
  const double low = std::log(least->ms), range = std::max(std::log(most->ms) - low, 1e-9);
  const int panels = static_cast<int>(std::size(kBatches));
  const std::string width = std::to_string(panels * kPanel + 16),
                    height = std::to_string(kSteps * kCell + 100);
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" +
                    height + "\" font-family=\"sans-serif\" font-size=\"10\">\n" +
                    "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" +
                    text_at(16, 20, "start", "black", title);
  constexpr int kTop = 56;
  for (int p = 0; p < panels; ++p) svg += axes(p * kPanel + kMargin, kTop, kBatches[p]);
  for (const Cell& c : cells) {
    const auto panel = std::find(std::begin(kBatches), std::end(kBatches), c.batch);
    const int x =
        static_cast<int>(panel - std::begin(kBatches)) * kPanel + kMargin + (c.sm / 10 - 1) * kCell;
    const int y = kTop + (kSteps - c.quota / 10) * kCell;
    const double part = (std::log(c.ms) - low) / range;
    svg += "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" width=\"" +
           std::to_string(kCell - 1) + "\" height=\"" + std::to_string(kCell - 1) + "\" fill=\"" +
           colour(part) + "\"/>\n" +
           text_at(x + kCell / 2, y + kCell / 2 + 4, "middle", part > 0.5 ? "white" : "black",
                   fixed(c.ms, c.ms < 100 ? 1 : 0));
  }
  return replace_file(path, svg + "</svg>\n", 0644);
}

}  // namespace sluice::cli
