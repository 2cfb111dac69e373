// Triton's config.pbtxt, as its users write it, and what Sluice does not serve of it.
#include "control/spec/triton_config.h"

#include <gmock/gmock.h>

namespace sluice::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kImages[] = R"(
# A model of images.
name: "resnet50"
platform: "pytorch_libtorch"
max_batch_size: 8
input [
  {
    name: "INPUT__0"
    data_type: TYPE_FP32
    dims: [ 3, 224, 224 ]
  }
]
output { name: 'OUTPUT__0', data_type: TYPE_FP32; dims: 1000 }
instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] } ]
dynamic_batching < preferred_batch_size: [ 4, 8 ] >
parameters { key: "A" value: { string_value: "a \"quoted\" text" } }
)";

std::string fault(const std::string& text) {
  const auto read = triton_config(text);
  EXPECT_FALSE(read.ok()) << text;
  return read.ok() ? "" : read.error().message;
}

TEST(TritonConfig, TensorsHaveTheBatchAsTheirFirstDimension) {
  const auto read = triton_config(kImages);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_THAT(read->inputs, ElementsAre(TensorSpec{"INPUT__0", "FP32", {-1, 3, 224, 224}}));
  EXPECT_THAT(read->outputs, ElementsAre(TensorSpec{"OUTPUT__0", "FP32", {-1, 1000}}));
  EXPECT_EQ(read->max_batch, 8);
  EXPECT_EQ(read->file, "model.pt");
}

TEST(TritonConfig, VersionsMayBeNamed) {
  const auto read = triton_config(std::string(kImages) +
                                  "version_policy: { specific { versions: [1, 3] } }\n"
                                  "default_model_filename: \"traced.pt\"");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_THAT(read->versions, ElementsAre(1, 3));
  EXPECT_EQ(read->file, "traced.pt");
}

TEST(TritonConfig, WhatCannotBeServedIsNamedWithItsLine) {
  const std::string tensors =
      "input { name: \"x\" data_type: TYPE_FP32 dims: 3 }\n"
      "output { name: \"y\" data_type: TYPE_FP32 dims: 3 }\n";
  const std::pair<std::string, const char*> faults[] = {
      {"", "input: is missing"},
      {"input {", "line 1: ends before its last }"},
      {"input: [{name: \"x\"", "line 1: ends before its last }"},
      {"input: [", "input: has no value"},
      {"}", "line 1: \"}\" is no field's name"},
      {"name: \"x", "line 1: a text without its end"},
      {"name = x", "line 1: a character that does not belong there"},
      {"\nbackend: \"onnxruntime\"\n" + tensors, "line 2: backend: \"onnxruntime\" is not served"},
      {"platform: \"tensorrt_plan\"\n" + tensors, "platform: \"tensorrt_plan\" is not served"},
      {"max_batch_size: 10000\n" + tensors, "max_batch_size: \"10000\" is not from 0 to 256"},
      {"max_batch_size: 1000000000000000000000\n" + tensors, "is not from 0 to 256"},
      {"default_model_filename: \"../x\"\n" + tensors, "is no file of a version's folder"},
      {tensors + "input { name: \"x\" data_type: TYPE_FP32 dims: 3 }", "\"x\" stands twice"},
      {"input { name: \"x\" data_type: TYPE_FP32 dims: three }", "\"three\" is no whole number"},
      {"input { name: \"x\" data_type: TYPE_FP32 dims: 0 }", "input.shape"},
      {"input { name: \"x\" data_type: TYPE_FP99 dims: 3 }", "input.datatype"},
      {"input: 3\n", "input: must be {…}"},
      {std::string(100'000, '{'), "is no field's name"}};
  for (const auto& [text, said] : faults) EXPECT_THAT(fault(text), HasSubstr(said)) << text;
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "a{";
  EXPECT_THAT(fault(deep), HasSubstr("is nested too deep"));
}

}  // namespace
}  // namespace sluice::control
