#include "trace/onnx_shapes.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <string_view>

namespace sluice::trace {

using Shape = std::vector<int64_t>;

int64_t product(const Shape& s, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < std::min(to, s.size()); ++i)
    if (__builtin_mul_overflow(n, s[i], &n)) return INT64_MAX;
  return n;
}

int64_t times(int64_t a, int64_t b) {
  int64_t n = 0;
  return __builtin_mul_overflow(a, b, &n) ? INT64_MAX : n;
}

namespace {

// They change each number by itself, or with those beside it.
constexpr std::string_view kMaps[] = {"Abs",
                                      "Add",
                                      "And",
                                      "BatchNormalization",
                                      "Cast",
                                      "Ceil",
                                      "Celu",
                                      "Clip",
                                      "Cos",
                                      "CumSum",
                                      "Div",
                                      "Dropout",
                                      "Elu",
                                      "Equal",
                                      "Erf",
                                      "Exp",
                                      "Floor",
                                      "Gelu",
                                      "Greater",
                                      "GreaterOrEqual",
                                      "GroupNormalization",
                                      "HardSigmoid",
                                      "HardSwish",
                                      "Identity",
                                      "InstanceNormalization",
                                      "IsNaN",
                                      "LayerNormalization",
                                      "LeakyRelu",
                                      "Less",
                                      "LessOrEqual",
                                      "Log",
                                      "LogSoftmax",
                                      "LRN",
                                      "Max",
                                      "Mean",
                                      "Min",
                                      "Mish",
                                      "Mod",
                                      "Mul",
                                      "Neg",
                                      "Not",
                                      "Or",
                                      "Pow",
                                      "PRelu",
                                      "Reciprocal",
                                      "Relu",
                                      "Round",
                                      "Selu",
                                      "Sigmoid",
                                      "Sign",
                                      "Sin",
                                      "Softmax",
                                      "Softplus",
                                      "Softsign",
                                      "Sqrt",
                                      "Sub",
                                      "Sum",
                                      "Tanh",
                                      "ThresholdedRelu",
                                      "Xor"};
// They move numbers, or choose among them.
constexpr std::string_view kMoves[] = {"ArgMax",
                                       "ArgMin",
                                       "Compress",
                                       "Concat",
                                       "ConstantOfShape",
                                       "DepthToSpace",
                                       "DequantizeLinear",
                                       "Expand",
                                       "Gather",
                                       "GatherElements",
                                       "GatherND",
                                       "OneHot",
                                       "Pad",
                                       "QuantizeLinear",
                                       "Range",
                                       "ReduceL1",
                                       "ReduceL2",
                                       "ReduceMax",
                                       "ReduceMean",
                                       "ReduceMin",
                                       "ReduceProd",
                                       "ReduceSum",
                                       "ReduceSumSquare",
                                       "Resize",
                                       "ReverseSequence",
                                       "Scatter",
                                       "ScatterElements",
                                       "ScatterND",
                                       "Size",
                                       "Slice",
                                       "SpaceToDepth",
                                       "Split",
                                       "Tile",
                                       "TopK",
                                       "Transpose",
                                       "Trilu",
                                       "Upsample",
                                       "Where"};

Shape broadcast(const Shape& a, const Shape& b) {
  Shape s(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < s.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    s[s.size() - 1 - i] = std::max(x, y);
  }
  return s;
}

// Without the first dimensions.
Shape behind(const Shape& s, size_t first) {
  const std::span<const int64_t> rest = std::span(s).subspan(std::min(first, s.size()));
  return {rest.begin(), rest.end()};
}

std::optional<Shape> windows(const OnnxNode& node, const Shape& in, const Shape& kernel,
                             int64_t channels) {
  if (in.size() != kernel.size() + 2) return std::nullopt;
  const Shape strides = node.list("strides"), pads = node.list("pads"),
              dilations = node.list("dilations");
  Shape s = {in[0], channels};
  for (size_t i = 0; i < kernel.size(); ++i) {
    constexpr int64_t kMost = 1'000'000'000;
    const int64_t stride = i < strides.size() ? std::max<int64_t>(strides[i], 1) : 1;
    const int64_t dilation = i < dilations.size() ? dilations[i] : 1;
    int64_t pad = 0;
    if (pads.size() == 2 * kernel.size()) pad = pads[i] + pads[i + kernel.size()];
    if (std::max({stride, dilation, pad, kernel[i]}) > kMost ||
        std::min({dilation, pad, kernel[i]}) < 0)
      return std::nullopt;
    int64_t room = in[i + 2] + pad - dilation * (kernel[i] - 1) - 1;
    if (room < 0) return std::nullopt;
    if (node.attribute("ceil_mode", 0) != 0) room += stride - 1;
    s.push_back(room / stride + 1);
  }
  return s;
}

// What windows() undoes.
std::optional<Shape> windows_undone(const OnnxNode& node, const Shape& in, const Shape& weight) {
  if (in.size() != weight.size() || in.size() < 3) return std::nullopt;
  const Shape strides = node.list("strides"), pads = node.list("pads"),
              dilations = node.list("dilations"), more = node.list("output_padding");
  Shape s = {in[0], times(weight[1], node.attribute("group", 1))};
  const size_t dims = in.size() - 2;
  for (size_t i = 0; i < dims; ++i) {
    const int64_t stride = i < strides.size() ? strides[i] : 1;
    const int64_t dilation = i < dilations.size() ? dilations[i] : 1;
    const int64_t pad = pads.size() == 2 * dims ? pads[i] + pads[i + dims] : 0;
    const int64_t extra = i < more.size() ? more[i] : 0;
    constexpr int64_t kMost = 1'000'000;
    if (std::max({stride, dilation, pad, extra, weight[i + 2], in[i + 2]}) > kMost ||
        std::min({stride, dilation, pad, extra}) < 0)
      return std::nullopt;
    s.push_back((in[i + 2] - 1) * stride - pad + dilation * (weight[i + 2] - 1) + extra + 1);
  }
  return s;
}

std::optional<Shape> reshaped(const OnnxNode& node, const Shape& in, const OnnxShapes& known) {
  const auto wanted = known.constants.find(node.input(1));
  if (wanted == known.constants.end() || wanted->second.empty()) return std::nullopt;
  Shape s = wanted->second;
  int64_t told = 1, open = -1;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == 0 && i < in.size()) s[i] = in[i];
    if (s[i] < 0)
      open = static_cast<int64_t>(i);
    else
      told = times(told, s[i]);
  }
  if (open >= 0) s[static_cast<size_t>(open)] = told > 0 ? product(in) / told : 1;
  return s;
}

std::optional<Shape> transposed(const OnnxNode& node, const Shape& in) {
  const Shape order = node.list("perm");
  if (order.empty()) return Shape(in.rbegin(), in.rend());
  Shape s;
  for (const int64_t d : order) {
    if (d < 0 || d >= static_cast<int64_t>(in.size())) return std::nullopt;
    s.push_back(in[static_cast<size_t>(d)]);
  }
  return s;
}

std::optional<Shape> concatenated(const OnnxNode& node, const Shape& first,
                                  const OnnxShapes& known) {
  int64_t axis = node.attribute("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(first.size());
  if (axis < 0 || axis >= static_cast<int64_t>(first.size())) return std::nullopt;
  Shape s = first;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const auto other = known.of(node.inputs[i]);
    if (!other || other->size() != s.size()) return std::nullopt;
    s[static_cast<size_t>(axis)] += (*other)[static_cast<size_t>(axis)];
  }
  return s;
}

std::optional<Shape> reduced(const OnnxNode& node, const Shape& in) {
  const bool keep = node.attribute("keepdims", 1) != 0;
  std::set<int64_t> axes;
  for (const int64_t a : node.list("axes"))
    axes.insert(a < 0 ? a + static_cast<int64_t>(in.size()) : a);
  Shape s;
  for (size_t i = 0; i < in.size(); ++i) {
    const bool gone = axes.empty() || axes.contains(static_cast<int64_t>(i));
    if (!gone) s.push_back(in[i]);
    if (gone && keep) s.push_back(1);
  }
  return s;
}

std::optional<Shape> derived(const OnnxNode& node, const OnnxShapes& known) {
  const auto a = known.of(node.input(0)), b = known.of(node.input(1));
  if (node.type == "Constant") {
    const auto found = known.constants.find(node.outputs[0]);
    if (found != known.constants.end()) return Shape{static_cast<int64_t>(found->second.size())};
    return std::nullopt;
  }
  if (!a) return std::nullopt;
  if (node.type == "Conv")
    return b ? windows(node, *a, behind(*b, 2), b->empty() ? 0 : (*b)[0]) : std::nullopt;
  if (node.type == "MaxPool" || node.type == "AveragePool")
    return a->size() > 1 ? windows(node, *a, node.list("kernel_shape"), (*a)[1]) : std::nullopt;
  if (node.type == "GlobalAveragePool") {
    Shape s = *a;
    for (size_t i = 2; i < s.size(); ++i) s[i] = 1;
    return s;
  }
  if (node.type == "Gemm" && b && a->size() == 2 && b->size() == 2)
    return Shape{(*a)[node.attribute("transA", 0) != 0 ? 1 : 0],
                 (*b)[node.attribute("transB", 0) != 0 ? 0 : 1]};
  if (node.type == "MatMul" && b && a->size() > 1 && b->size() > 1) {
    Shape s = broadcast(Shape(a->begin(), a->end() - 2), Shape(b->begin(), b->end() - 2));
    s.push_back((*a)[a->size() - 2]);
    s.push_back(b->back());
    return s;
  }
  if (node.type == "Flatten") {
    const auto axis = static_cast<size_t>(node.attribute("axis", 1));
    return Shape{product(*a, 0, axis), product(*a, axis)};
  }
  if (node.type == "Reshape") return reshaped(node, *a, known);
  if (node.type == "Transpose") return transposed(node, *a);
  if (node.type == "Concat") return concatenated(node, *a, known);
  if (node.type == "Gather" && b) {
    Shape s = *b;
    const Shape rest = behind(*a, 1);
    s.insert(s.end(), rest.begin(), rest.end());
    return s;
  }
  if (node.type == "ReduceMean") return reduced(node, *a);
  if (node.type == "ConvTranspose") return b ? windows_undone(node, *a, *b) : std::nullopt;
  const bool recurrent = node.type == "LSTM" || node.type == "GRU" || node.type == "RNN";
  if (recurrent && b && a->size() == 3 && b->size() == 3)
    return Shape{(*a)[0], (*b)[0], (*a)[1], node.attribute("hidden_size", 0)};
  if (std::find(std::begin(kMaps), std::end(kMaps), node.type) == std::end(kMaps))
    return std::nullopt;
  return b ? broadcast(*a, *b) : *a;
}

}  // namespace

bool moves_or_maps(std::string_view type) {
  return std::find(std::begin(kMaps), std::end(kMaps), type) != std::end(kMaps) ||
         std::find(std::begin(kMoves), std::end(kMoves), type) != std::end(kMoves);
}

std::optional<Shape> onnx_shape(const OnnxNode& node, const OnnxShapes& known) {
  std::optional<Shape> shape = derived(node, known);
  if (shape && std::all_of(shape->begin(), shape->end(), is_dimension)) return shape;
  return std::nullopt;
}

}  // namespace sluice::trace
