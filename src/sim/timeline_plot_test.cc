#include "sim/timeline_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::sim {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(TimelinePlotTest, DrawsEveryPanelOfItsFunctions) {
  TimelinePlot plot;
  for (int64_t s = 0; s < 3; ++s)
    plot.add({.second = s, .function = {.name = "resnet"}, .arrivals = 9, .instances = 2});
  const std::string svg = plot.svg();
  for (const char* title : {"load", "instances", "held", "latency", "devices in use", ">resnet<"})
    EXPECT_THAT(svg, HasSubstr(title));
}

TEST(TimelinePlotTest, OfManyFunctionsTheBusiestAreDrawn) {
  TimelinePlot plot;
  for (int f = 0; f < 20; ++f)
    plot.add({.function = {.name = "f" + std::to_string(f)}, .arrivals = static_cast<uint64_t>(f)});
  EXPECT_THAT(plot.svg(), HasSubstr(">f13<"));
  EXPECT_THAT(plot.svg(), Not(HasSubstr(">f12<")));
}

}  // namespace
}  // namespace sluice::sim
