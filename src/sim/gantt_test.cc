#include "sim/gantt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::sim {
namespace {

using testing::HasSubstr;
using testing::Not;

int boxes(const std::string& svg, const std::string& colour) {
  int count = 0;
  const std::string wanted = "fill=\"" + colour + "\"/>";
  for (size_t at = 0; (at = svg.find(wanted, at)) != svg.npos; ++at) ++count;
  return count;
}

TEST(Gantt, DrawsABarForEachStay) {
  Gantt gantt;
  const Occupant job{"n0", "n0/0", "j", true}, inference{"n0", "n0/1", "f", false};
  for (int s = 1; s <= 9; ++s) {
    std::vector<Occupant> now{inference};
    if (s < 4 || s > 6) now.push_back(job);
    gantt.add(Seconds(s), now, s > 6 ? std::set<std::string>{"n0"} : std::set<std::string>{});
  }
  const std::string svg = gantt.svg();
  EXPECT_EQ(boxes(svg, "#0072b2"), 3) << "two stays, and the legend";
  EXPECT_EQ(boxes(svg, "#999"), 2);
  EXPECT_EQ(boxes(svg, "#f7e89c"), 2) << "one loan, and the legend";
  EXPECT_THAT(svg, HasSubstr(">n0<"));
  EXPECT_THAT(svg, HasSubstr(">j<"));
}

TEST(Gantt, OfManyDevicesTheFirstAreDrawn) {
  Gantt gantt;
  std::vector<Occupant> now;
  for (int n = 100; n < 500; ++n)
    now.push_back({"n" + std::to_string(n), "d" + std::to_string(n), "j", true});
  gantt.add(Seconds(1), now, {});
  EXPECT_THAT(gantt.svg(), HasSubstr(">n355<"));
  EXPECT_THAT(gantt.svg(), Not(HasSubstr(">n356<")));
}

}  // namespace
}  // namespace sluice::sim
