#include "sim/plot.h"

#include <gmock/gmock.h>

namespace sluice::sim {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t count(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++n;
  return n;
}

// A line from 0 to 10 s whose value doubles at 5 s.
PlotLine doubles(bool steps) {
  return {
      .name = "f", .points = {{Seconds(0), 1}, {Seconds(5), 2}, {Seconds(10), 2}}, .steps = steps};
}

TEST(PlotTest, AStepHoldsItsValueUntilTheNext) {
  // 660 pixels wide from 70 on; 148 high, the largest value 28 below the panel's top.
  EXPECT_THAT(to_svg({{"load", "1/s", {doubles(true)}}}),
              HasSubstr("M70.0 102.0L400.0 102.0L400.0 28.0L730.0 28.0L730.0 28.0"));
  EXPECT_THAT(to_svg({{"load", "1/s", {doubles(false)}}}),
              HasSubstr("M70.0 102.0L400.0 28.0L730.0 28.0"));
}

TEST(PlotTest, PanelsShareTheAxisOfTime) {
  const std::string svg =
      to_svg({{"load", "1/s", {doubles(true)}}, {"instances", "", {doubles(true)}}});
  EXPECT_EQ(count(svg, ">0:10<"), 1U);
  EXPECT_THAT(svg, HasSubstr(">load (1/s)<"));
  EXPECT_THAT(svg, HasSubstr(">instances<"));
}

TEST(PlotTest, NamesAreText) {
  PlotLine line = doubles(true);
  line.name = "<script>&";
  const std::string svg = to_svg({{"t", "", {line}}});
  EXPECT_THAT(svg, HasSubstr("&lt;script>&amp;"));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
}

TEST(PlotTest, OfManyPointsThePeaksStay) {
  PlotLine line{.name = "f"};
  for (int k = 0; k < 100'000; ++k) line.points.push_back({Millis(k), k == 33'333 ? 7.0 : 1.0});
  const std::string svg = to_svg({{"t", "", {line}}});
  EXPECT_LT(svg.size(), 100'000U);
  EXPECT_THAT(svg, HasSubstr(" 28.0L"));
}

TEST(PlotTest, NothingIsAlsoAPlot) {
  EXPECT_THAT(to_svg({{"t", "", {}}, {"u", "", {{.name = "f"}}}}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace sluice::sim
