#include "model/function.h"

#include <gtest/gtest.h>

#include "model/slice.h"

namespace sluice {
namespace {

TEST(FunctionName, ReadsWhatItPrints) {
  const FunctionName f{.space = "vision", .name = "resnet"};
  EXPECT_EQ(to_string(f), "vision/resnet");
  EXPECT_EQ(function_name("vision/resnet"), f);
  EXPECT_EQ(function_name("resnet").space, "default");
  EXPECT_EQ(revision_id(f, 3), "vision/resnet@3");
  EXPECT_EQ(served_name(f), "vision.resnet");
  EXPECT_EQ(served_name({.name = "resnet"}), "resnet");
}

TEST(FunctionSpecDeathTest, ATrainingFunctionHasNoInferenceFields) {
  FunctionSpec spec{.name = {"vision", "vgg"}};
  EXPECT_EQ(spec.inference().min_replicas, 1) << "a function is one of inference unless it says";
  spec.kind = TrainingSpec{};
  EXPECT_FALSE(spec.is_inference());
  EXPECT_DEATH((void)spec.inference(), "vision/vgg is a training function");
}

TEST(Share, RoundsUpToWhatADeviceCanHold) {
  EXPECT_EQ(round_up({1}, {250}).permille, 250);
  EXPECT_EQ(round_up({250}, {250}).permille, 250);
  EXPECT_EQ(round_up({251}, {250}).permille, 500);
  EXPECT_EQ(area({.sm = {500}, .quota = {{200}, {400}}}), 100'000);
}

}  // namespace
}  // namespace sluice
