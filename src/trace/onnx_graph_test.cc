#include "trace/onnx_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Writes protobuf, as exporters do.
std::string varint(uint64_t value) {
  std::string out;
  for (; value > 127; value >>= 7) out += static_cast<char>(value % 128 + 128);
  return out + static_cast<char>(value);
}
std::string number(int field, int64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(static_cast<uint64_t>(value));
}
std::string text(int field, const std::string& bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}

std::string integers(const std::string& name, const std::vector<int64_t>& values) {
  std::string out = text(1, name);
  for (const int64_t v : values) out += number(8, v);
  return text(5, out);
}
std::string integer(const std::string& name, int64_t value) {
  return text(5, text(1, name) + number(3, value));
}
std::string node(const std::string& type, const std::vector<std::string>& inputs,
                 const std::string& output, const std::string& attributes = "") {
  std::string out;
  for (const std::string& input : inputs) out += text(1, input);
  return text(1, out + text(2, output) + text(4, type) + attributes);
}
std::string weight(const std::string& name, const std::vector<int64_t>& dims) {
  std::string out;
  for (const int64_t d : dims) out += number(1, d);
  return text(5, out + text(8, name));
}
// A dimension of 0 has a name.
std::string value(int field, const std::string& name, const std::vector<int64_t>& dims) {
  std::string shape;
  for (const int64_t d : dims) shape += text(1, d > 0 ? number(1, d) : text(2, "N"));
  return text(field, text(1, name) + text(2, text(1, number(1, 1) + text(2, shape))));
}
std::string model(const std::string& graph) {
  return number(1, 8) + text(7, graph);
}

const std::string kSmall =
    node("Conv", {"x", "w", "b"}, "c",
         integers("strides", {2, 2}) + integers("pads", {1, 1, 1, 1}) + integer("group", 1)) +
    node("Relu", {"c"}, "r") + node("GlobalAveragePool", {"r"}, "g") +
    node("Flatten", {"g"}, "f", integer("axis", 1)) +
    node("Gemm", {"f", "w2", "b2"}, "y", integer("transB", 1)) + weight("w", {8, 3, 3, 3}) +
    weight("b", {8}) + weight("w2", {10, 8}) + weight("b2", {10}) + value(11, "x", {0, 3, 32, 32}) +
    value(12, "y", {0, 10});

TEST(OnnxGraph, OperatorsWithDerivedShapes) {
  const auto found = onnx_model_from(model(kSmall), 4);
  ASSERT_TRUE(found.ok()) << found.error().message;
  ASSERT_EQ(found->inputs.size(), 1u);
  EXPECT_EQ(found->inputs[0].name, "x");
  EXPECT_EQ(found->inputs[0].datatype, "FP32");
  EXPECT_THAT(found->inputs[0].shape, ElementsAre(-1, 3, 32, 32));
  const std::vector<Operator>& o = found->graph.operators;
  ASSERT_EQ(o.size(), 4u);  // Flatten is a view
  EXPECT_EQ(o[0], (Operator{.type = "conv2d",
                            .in = {4, 3, 32, 32},
                            .out = {4, 8, 16, 16},
                            .macs = 4 * 8 * 16 * 16 * 27,
                            .parameters = 224,
                            .kernel = 3,
                            .stride = 2,
                            .groups = 1}));
  EXPECT_EQ(o[1].type, "relu");
  EXPECT_EQ(o[3].type, "dense");
  EXPECT_EQ(o[3].macs, 4 * 10 * 8);
  EXPECT_THAT(o[3].from, ElementsAre(2));
}

TEST(OnnxGraph, ShapesOfMatricesAndJoins) {
  const auto found = onnx_model_from(
      model(node("MatMul", {"x", "w"}, "a") +
            node("Transpose", {"a"}, "t", integers("perm", {0, 2, 1})) +
            node("MatMul", {"a", "t"}, "s") + node("Concat", {"s", "s"}, "j", integer("axis", -1)) +
            weight("w", {64, 32}) + value(11, "x", {0, 7, 64})),
      2);
  ASSERT_TRUE(found.ok()) << found.error().message;
  const std::vector<Operator>& o = found->graph.operators;
  ASSERT_EQ(o.size(), 4u);
  EXPECT_EQ(o[0].type, "linear_nd");
  EXPECT_EQ(o[2].type, "matmul");
  EXPECT_THAT(o[2].out, ElementsAre(2, 7, 7));
  EXPECT_EQ(o[2].macs, 2 * 7 * 7 * 32);
  EXPECT_THAT(o[3].out, ElementsAre(2, 7, 14));
}

// Beside the batch, a size that the file does not tell is never guessed.
TEST(OnnxGraph, AnotherVariableDimensionIsAskedFor) {
  const std::string graph = model(node("MatMul", {"x", "w"}, "a") + weight("w", {64, 32}) +
                                  value(11, "x", {0, 0, 64}) + value(12, "a", {0, 0, 32}));
  const auto open = onnx_model_from(graph, 2);
  ASSERT_TRUE(open.ok()) << open.error().message;
  EXPECT_THAT(open->inputs[0].shape, ElementsAre(-1, -1, 64));
  EXPECT_THAT(open->graph.operators, IsEmpty());
  const auto stated =
      onnx_model_from(graph, 2, {{.name = "x", .datatype = "FP32", .shape = {-1, 128, 64}}});
  ASSERT_TRUE(stated.ok()) << stated.error().message;
  EXPECT_EQ(stated->graph.operators[0].macs, 2 * 128 * 64 * 32);
  const auto of = [&](const TensorSpec& t) {
    return onnx_model_from(graph, 2, {t}).error().message;
  };
  EXPECT_EQ(of({.name = "y", .datatype = "FP32", .shape = {1}}), "has no input 'y'");
  EXPECT_EQ(of({.name = "x", .datatype = "FP32", .shape = {1}}),
            "input 'x' has 3 dimensions; 1 are stated");
}

TEST(OnnxGraph, TransposedConvolutionsAndRecurrentLayersCountTheirProducts) {
  const auto found = onnx_model_from(
      model(node("ConvTranspose", {"x", "w"}, "c",
                 integers("strides", {2, 2}) + integers("pads", {1, 1, 1, 1})) +
            weight("w", {8, 4, 4, 4}) + value(11, "x", {0, 8, 16, 16}) +
            node("LSTM", {"s", "wi", "wh"}, "h", integer("hidden_size", 32)) +
            weight("wi", {1, 128, 64}) + weight("wh", {1, 128, 32}) + value(11, "s", {10, 3, 64})),
      1);
  ASSERT_TRUE(found.ok()) << found.error().message;
  const std::vector<Operator>& o = found->graph.operators;
  EXPECT_THAT(o[0].out, ElementsAre(1, 4, 32, 32));
  EXPECT_EQ(o[0].macs, 8 * 16 * 16 * 4 * 4 * 4);
  EXPECT_THAT(o[1].out, ElementsAre(10, 1, 3, 32));
  EXPECT_EQ(o[1].macs, 10 * 3 * (128 * 64 + 128 * 32));
  EXPECT_THAT(found->graph.uncounted, IsEmpty());
}

TEST(OnnxGraph, WorkThatIsNotKnownIsNamed) {
  const auto found =
      onnx_model_from(model(node("Attention", {"x", "w"}, "a") + node("Relu", {"a"}, "r") +
                            node("Abs", {"r"}, "b") + weight("w", {64, 192}) +
                            value(11, "x", {0, 7, 64}) + value(13, "a", {0, 7, 64})),
                      1);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_THAT(found->graph.uncounted, ElementsAre("Attention"));
}

TEST(OnnxGraph, WhatCannotBeReadIsSaid) {
  const struct {
    std::string text, said;
  } cases[] = {
      {"", "no ONNX model"},
      {"not a model", "no ONNX model"},
      {model(""), "no ONNX model"},
      {model(value(11, "x", {1})), "has no operator"},
      {model(node("If", {"x"}, "y", text(5, text(1, "then_branch") + text(6, "g"))) +
             value(11, "x", {1})),
       "control flow"},
      {model(node("Slice", {"x"}, "y") + value(11, "x", {4})), "operator 0 (Slice): the shape"},
      {model(node("Conv", {"x", "w"}, "c") + weight("w", {8, 3, 9, 9}) +
             value(11, "x", {1, 3, 4, 4})),
       "operator 0 (Conv)"},
  };
  for (const auto& c : cases) {
    const auto found = onnx_model_from(c.text, 1);
    ASSERT_FALSE(found.ok()) << c.said;
    EXPECT_THAT(found.error().message, HasSubstr(c.said));
  }
}

TEST(OnnxGraph, CutShortAnywhereItIsNoModel) {
  const std::string whole = model(kSmall);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(onnx_model_from(std::string_view(whole).substr(0, size), 1).ok()) << size;
}

}  // namespace
}  // namespace sluice::trace
