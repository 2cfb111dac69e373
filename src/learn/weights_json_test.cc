#include "learn/weights_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>

#include "learn/builtin.h"

namespace sluice::learn {
namespace {

using testing::HasSubstr;

Learned some() {
  constexpr size_t kInputs = predict::kOperatorFeatures;
  Learned l{{"V100", "a test", 3, 100, 7}, {}};
  l.weights.network = {.inputs = kInputs,
                       .hidden = 2,
                       .first = std::vector<double>(2 * kInputs, 0.25),
                       .first_bias = {1, 2},
                       .second = {1, 2, 3, 4},
                       .second_bias = {-1, -2},
                       .last = {0.5, 1.0 / 3},
                       .direct = std::vector<double>(kInputs, -0.125),
                       .bias = 3};
  l.weights.issue.assign(std::size(kOperatorTypes), -2);
  l.weights.throttle = {{Share{100}, 2.5}, {kWhole, 0}};
  return l;
}

TEST(WeightsJson, ComeBackAsTheyWere) {
  const auto back = learned_from(to_json(some()));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->from.device, "V100");
  EXPECT_EQ(back->from.points, 100);
  EXPECT_EQ(back->weights.throttle, some().weights.throttle);
  EXPECT_NEAR(back->weights.network.last[1], 1.0 / 3, 1e-6);
  predict::Network same = some().weights.network;
  same.last[1] = back->weights.network.last[1];
  EXPECT_EQ(back->weights.network, same);
}

TEST(WeightsJson, WhatIsWrongIsSaid) {
  const struct {
    const char *key, *value, *said;
  } cases[] = {{"first", "[1, 2]", "are needed"},
               {"second", "[1, 2, 3, \"x\"]", "is no number"},
               {"last", "[1, 1e30]", "is no number between"},
               {"throttle", "[[100, 2]]", "must end with the whole"},
               {"throttle", "[[1000, 0], [100, 2]]", "must ascend"},
               {"stiffness", "[0, 1]", "must be positive"},
               {"hidden", "0", "hidden"},
               {"sharpness", "-1", "sharpness"}};
  for (const auto& c : cases) {
    nlohmann::json j = to_json(some());
    j[c.key] = nlohmann::json::parse(c.value);
    const auto back = learned_from(j);
    ASSERT_FALSE(back.ok()) << c.key;
    EXPECT_THAT(back.error().message, HasSubstr(c.said)) << c.key;
  }
}

TEST(BuiltinWeights, AreFoundByTheNameOfTheDevice) {
  const Learned* v100 = builtin_weights("NVIDIA Tesla V100-SXM2-16GB");
  ASSERT_NE(v100, nullptr);
  EXPECT_GT(v100->from.points, 10'000);
  EXPECT_TRUE(v100->weights.network.is_whole());
  EXPECT_EQ(builtin_weights("cpu/1000m"), nullptr);
}

}  // namespace
}  // namespace sluice::learn
