#include "wire/json/operator_graph_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::wire {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const OperatorGraph kGraph{
    .batch = 2,
    .operators = {{.type = "conv2d",
                   .in = {2, 3, 8, 8},
                   .out = {2, 4, 4, 4},
                   .macs = 100,
                   .parameters = 12,
                   .kernel = 3,
                   .stride = 2,
                   .groups = 1},
                  {.type = "relu", .in = {2, 4, 4, 4}, .out = {2, 4, 4, 4}, .from = {0}},
                  {.type = "add", .in = {2, 4, 4, 4}, .out = {2, 4, 4, 4}, .from = {0, 1}}}};

TEST(OperatorGraphJson, ComesBackAsItWas) {
  const auto back = operator_graph_from(to_json(kGraph));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, kGraph);
}

TEST(OperatorGraphJson, WhatIsWrongIsSaidWithItsPlace) {
  const struct {
    const char *patch, *said;
  } cases[] = {
      {R"([{"op":"replace","path":"/operators","value":[]}])", "operators: must be 1 to"},
      {R"([{"op":"replace","path":"/operators/1/type","value":"conv9d"}])", "operator 1.type"},
      {R"([{"op":"replace","path":"/operators/2/from","value":[1,0]}])", "operator 2.from"},
      {R"([{"op":"replace","path":"/operators/0/from","value":[0]}])", "operator 0.from"},
      {R"([{"op":"replace","path":"/operators/0/macs","value":-1}])", "operator 0.macs"},
      {R"([{"op":"replace","path":"/operators/0/in","value":[-3]}])", "operator 0.in"},
      {R"([{"op":"replace","path":"/operators/0","value":7}])", "operator 0"},
      {R"([{"op":"replace","path":"/batch","value":0}])", "batch"},
  };
  for (const auto& c : cases) {
    const auto back = operator_graph_from(to_json(kGraph).patch(json::parse(c.patch)));
    ASSERT_FALSE(back.ok()) << c.patch;
    EXPECT_THAT(back.error().message, HasSubstr(c.said));
  }
}

}  // namespace
}  // namespace sluice::wire
