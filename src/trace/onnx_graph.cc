#include "trace/onnx_graph.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "trace/onnx_shapes.h"
#include "trace/protobuf.h"

namespace sluice::trace {
namespace {

using Shape = std::vector<int64_t>;
using Node = OnnxNode;

// Field numbers of onnx.proto, version 1.
enum ModelField : uint32_t { kModelGraph = 7 };
enum GraphField : uint32_t {
  kGraphNode = 1,
  kGraphInitializer = 5,
  kGraphInput = 11,
  kGraphOutput = 12,
  kGraphValueInfo = 13,
};
enum NodeField : uint32_t { kNodeInput = 1, kNodeOutput = 2, kNodeType = 4, kNodeAttribute = 5 };
enum AttributeField : uint32_t {
  kAttributeName = 1,
  kAttributeInt = 3,
  kAttributeTensor = 5,
  kAttributeGraph = 6,
  kAttributeInts = 8
};
enum TensorField : uint32_t { kTensorDims = 1, kTensorInts = 7, kTensorName = 8, kTensorRaw = 9 };

constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
    {"Conv", "conv2d"},
    {"ConvTranspose", "conv2d"},
    {"Gemm", "dense"},
    {"MatMul", "matmul"},
    {"LSTM", "linear_nd"},
    {"GRU", "linear_nd"},
    {"RNN", "linear_nd"},
    {"BatchNormalization", "batch_norm"},
    {"LayerNormalization", "layer_norm"},
    {"InstanceNormalization", "layer_norm"},
    {"Relu", "relu"},
    {"Clip", "relu"},
    {"LeakyRelu", "relu"},
    {"Gelu", "gelu"},
    {"Erf", "gelu"},
    {"HardSwish", "hardswish"},
    {"Sigmoid", "sigmoid"},
    {"HardSigmoid", "sigmoid"},
    {"Tanh", "tanh"},
    {"Softmax", "softmax"},
    {"LogSoftmax", "softmax"},
    {"Add", "add"},
    {"Sub", "add"},
    {"Mul", "mul"},
    {"Div", "mul"},
    {"Concat", "concat"},
    {"MaxPool", "max_pool2d"},
    {"AveragePool", "avg_pool2d"},
    {"GlobalAveragePool", "avg_pool2d"},
    {"Transpose", "transpose"},
    {"ReduceMean", "mean"},
    {"Gather", "embedding"}};
// They move nothing.
constexpr std::string_view kViews[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity",
                                       "Dropout", "Cast",    "Shape",   "Constant"};
constexpr std::string_view kDatatypes[] = {"",      "FP32",  "UINT8",  "INT8",  "UINT16",
                                           "INT16", "INT32", "INT64",  "BYTES", "BOOL",
                                           "FP16",  "FP64",  "UINT32", "UINT64"};

std::optional<Shape> integers(std::string_view packed) {
  Shape out;
  while (!packed.empty()) {
    const auto value = Protobuf::varint(packed);
    if (!value) return std::nullopt;
    out.push_back(static_cast<int64_t>(*value));
  }
  return out;
}

class Reader {
 public:
  Reader(int batch, const std::vector<TensorSpec>& stated) : batch_(batch), stated_(stated) {
    model_.graph.batch = batch;
  }

  Result<OnnxModel> read(std::string_view text) {
    std::string_view graph;
    Protobuf fields(text);
    while (const auto f = fields.next())
      if (f->number == kModelGraph) graph = f->bytes;
    if (fields.broken() || graph.empty()) return wrong("is no ONNX model, or cut short");
    SLUICE_TRY(read_graph(graph));
    const auto open = [](const TensorSpec& t) {
      return std::any_of(t.shape.begin() + (t.shape.empty() ? 0 : 1), t.shape.end(),
                         [](int64_t d) { return d < 0; });
    };
    if (std::ranges::any_of(model_.inputs, open)) return std::move(model_);
    for (const Node& node : nodes_) SLUICE_TRY(add(node));
    if (model_.graph.operators.empty()) return wrong("has no operator");
    model_.graph.uncounted.assign(uncounted_.begin(), uncounted_.end());
    return std::move(model_);
  }

 private:
  // A name, a type and a shape.
  struct Value {
    TensorSpec spec;
    std::vector<std::string> names;  // of its dimensions; empty: none
    bool known = false;              // a shape is told
  };

  static Error wrong(const std::string& why) { return {ErrorKind::kInvalid, why}; }
  Error wrong(const Node& node, const std::string& why) const {
    return wrong("operator " + std::to_string(model_.graph.operators.size()) + " (" + node.type +
                 "): " + why);
  }

  Result<void> read_graph(std::string_view graph) {
    Protobuf fields(graph);
    std::vector<std::string_view> inputs, outputs, values;
    while (const auto f = fields.next()) {
      bool good = true;
      if (f->number == kGraphNode) good = read_node(f->bytes);
      if (f->number == kGraphInitializer) good = read_weight(f->bytes);
      if (f->number == kGraphInput) inputs.push_back(f->bytes);
      if (f->number == kGraphOutput) outputs.push_back(f->bytes);
      if (f->number == kGraphValueInfo) values.push_back(f->bytes);
      if (!good) return wrong("is no ONNX model, or cut short");
    }
    if (fields.broken()) return wrong("is no ONNX model, or cut short");
    for (const std::string_view text : inputs) {
      const Value value = read_value(text);
      if (!weights_.contains(value.spec.name)) SLUICE_TRY(add_input(value));
    }
    for (const TensorSpec& t : stated_)
      if (std::ranges::find(model_.inputs, t.name, &TensorSpec::name) == model_.inputs.end())
        return wrong("has no input '" + t.name + "'");
    for (const std::string_view text : outputs) model_.outputs.push_back(read_value(text).spec);
    values.insert(values.end(), outputs.begin(), outputs.end());
    for (const std::string_view text : values) keep_shape(read_value(text));
    return {};
  }

  // Sizes of dimensions with a name are those of the input that has the name first.
  Result<void> add_input(const Value& value) {
    TensorSpec t = value.spec;
    const auto stated = std::ranges::find(stated_, t.name, &TensorSpec::name);
    if (stated != stated_.end()) {
      if (value.known && stated->shape.size() != t.shape.size())
        return wrong("input '" + t.name + "' has " + std::to_string(t.shape.size()) +
                     " dimensions; " + std::to_string(stated->shape.size()) + " are stated");
      t.shape = stated->shape;
    }
    Shape shape = t.shape;
    if (!shape.empty() && shape[0] < 0) shape[0] = batch_;
    for (size_t i = 0; i < value.names.size() && i < shape.size(); ++i)
      if (!value.names[i].empty() && shape[i] > 0) name_size(value.names[i], shape[i]);
    known_.shapes[t.name] = shape;
    model_.inputs.push_back(std::move(t));
    return {};
  }

  // A name that stands for two sizes tells nothing.
  void name_size(const std::string& name, int64_t size) {
    const auto [known, is_new] = sizes_.emplace(name, size);
    if (!is_new && known->second != size) known->second = -1;
  }

  // Nothing is known of a shape of which one dimension is not.
  void keep_shape(const Value& value) {
    Shape shape = value.spec.shape;
    for (size_t i = 0; i < shape.size(); ++i)
      if (const auto size = sizes_.find(value.names[i]); shape[i] < 0 && size != sizes_.end())
        shape[i] = size->second;
    if (value.known && std::ranges::all_of(shape, [](int64_t d) { return d > 0; }))
      known_.shapes.emplace(value.spec.name, shape);
  }

  bool read_node(std::string_view text) {
    Protobuf fields(text);
    Node node;
    while (const auto f = fields.next()) {
      if (f->number == kNodeInput) node.inputs.emplace_back(f->bytes);
      if (f->number == kNodeOutput) node.outputs.emplace_back(f->bytes);
      if (f->number == kNodeType) node.type = f->bytes;
      if (f->number == kNodeAttribute && !read_attribute(f->bytes, node)) return false;
    }
    nodes_.push_back(std::move(node));
    return !fields.broken();
  }

  bool read_attribute(std::string_view text, Node& node) {
    Protobuf fields(text);
    std::string name;
    Shape numbers;
    while (const auto f = fields.next()) {
      if (f->number == kAttributeName) name = f->bytes;
      if (f->number == kAttributeInt) numbers.push_back(static_cast<int64_t>(f->value));
      if (f->number == kAttributeGraph) node.has_graph = true;
      if (f->number == kAttributeTensor && node.type == "Constant")
        if (const auto t = tensor(f->bytes); t && !node.outputs.empty())
          known_.constants[node.outputs[0]] = t->second;
      if (f->number != kAttributeInts) continue;
      if (!f->has_bytes) {
        numbers.push_back(static_cast<int64_t>(f->value));
      } else if (const auto packed = integers(f->bytes)) {
        numbers.insert(numbers.end(), packed->begin(), packed->end());
      } else {
        return false;
      }
    }
    node.attributes[name] = std::move(numbers);
    return !fields.broken();
  }

  // The dimensions and, of 64-bit integers, the values.
  static std::optional<std::pair<Shape, Shape>> tensor(std::string_view text,
                                                       std::string* name = nullptr) {
    Protobuf fields(text);
    Shape dims, values;
    while (const auto f = fields.next()) {
      if (f->number == kTensorName && name != nullptr) *name = f->bytes;
      if (f->number == kTensorDims || f->number == kTensorInts) {
        Shape& to = f->number == kTensorDims ? dims : values;
        if (!f->has_bytes) {
          to.push_back(static_cast<int64_t>(f->value));
        } else if (const auto packed = integers(f->bytes)) {
          to.insert(to.end(), packed->begin(), packed->end());
        } else {
          return std::nullopt;
        }
      }
      constexpr size_t kMostShape = 64;
      if (f->number == kTensorRaw && f->bytes.size() % 8 == 0 && f->bytes.size() <= kMostShape) {
        values.resize(f->bytes.size() / 8);
        f->bytes.copy(reinterpret_cast<char*>(values.data()), f->bytes.size());
      }
    }
    const bool possible = std::all_of(dims.begin(), dims.end(), is_dimension);
    if (fields.broken() || !possible) return std::nullopt;
    return std::pair(dims, values);
  }

  bool read_weight(std::string_view text) {
    std::string name;
    const auto t = tensor(text, &name);
    if (!t) return false;
    weights_.insert(name);
    known_.shapes[name] = t->first;
    known_.constants[name] = t->second;
    return true;
  }

  static Value read_value(std::string_view text) {
    Value v;
    Protobuf value(text);
    while (const auto f = value.next()) {
      if (f->number == 1) v.spec.name = f->bytes;
      if (f->number != 2) continue;
      Protobuf type(f->bytes);
      while (const auto g = type.next())
        if (g->number == 1) read_type(g->bytes, v);
    }
    return v;
  }

  static void read_type(std::string_view text, Value& v) {
    Protobuf of_tensor(text);
    while (const auto h = of_tensor.next()) {
      if (h->number == 1 && h->value < std::size(kDatatypes))
        v.spec.datatype = kDatatypes[h->value];
      if (h->number != 2) continue;
      v.known = true;
      Protobuf dims(h->bytes);
      while (const auto d = dims.next()) {
        int64_t size = -1;
        std::string name;
        Protobuf dim(d->bytes);
        while (const auto n = dim.next()) {
          if (n->number == 1) size = static_cast<int64_t>(n->value);
          if (n->number == 2) name = n->bytes;
        }
        v.spec.shape.push_back(is_dimension(size) && size > 0 ? size : -1);
        v.names.push_back(std::move(name));
      }
    }
  }

  std::optional<Shape> shape_of(const std::string& name) const { return known_.of(name); }

  Result<void> add(const Node& node) {
    if (node.has_graph) return wrong(node, "has control flow, which has no fixed operators");
    if (node.outputs.empty()) return {};
    const std::string& out = node.outputs[0];
    std::set<int> from;
    for (const std::string& input : node.inputs)
      if (const auto maker = makers_.find(input); maker != makers_.end())
        from.insert(maker->second.begin(), maker->second.end());
    if (!known_.shapes.contains(out)) {
      auto derived = onnx_shape(node, known_);
      if (derived) known_.shapes[out] = *derived;
    }
    if (std::find(std::begin(kViews), std::end(kViews), node.type) != std::end(kViews)) {
      makers_[out] = from;
      return {};
    }
    const auto shape = shape_of(out);
    if (!shape)
      return wrong(node,
                   "the shape of its result is neither told nor known; ONNX's shape inference "
                   "can write it into the file");
    Operator o = described(node, *shape);
    o.from.assign(from.begin(), from.end());
    if (o.type == "other" && !moves_or_maps(node.type)) uncounted_.insert(node.type);
    for (const std::string& name : node.outputs)
      makers_[name] = {static_cast<int>(model_.graph.operators.size())};
    model_.graph.operators.push_back(std::move(o));
    return {};
  }

  Operator described(const Node& node, const Shape& shape) const {
    Operator o;
    for (const auto& [onnx, type] : kTypes)
      if (node.type == onnx) o.type = type;
    o.out = shape;
    for (const std::string& input : node.inputs) {
      const auto s = shape_of(input);
      if (!s) continue;
      if (weights_.contains(input))
        o.parameters += std::min(product(*s), INT64_MAX - o.parameters);
      else if (o.in.empty())
        o.in = *s;
    }
    if (o.type == "conv2d") {
      const Shape weight =
          shape_of(node.input(1)).value_or(Shape());  // out, in ÷ groups, height, width
      o.kernel = weight.size() > 2 ? static_cast<int>(weight[2]) : 1;
      const Shape strides = node.list("strides");
      o.stride = strides.empty() ? 1 : static_cast<int>(strides[0]);
      o.groups = static_cast<int>(node.attribute("group", 1));
      // Of a transposed one: in, out ÷ groups, height, width.
      o.macs = times(product(node.type == "Conv" ? shape : o.in), product(weight, 1));
      if (o.groups > 1 && weight.size() > 1 && weight[1] == 1) o.type = "dwconv2d";
    }
    if (o.type == "linear_nd") {  // recurrent: each element of a sequence meets both matrices
      const int64_t elements = o.in.size() > 1 ? times(o.in[0], o.in[1]) : 0;
      for (const size_t i : {1, 2}) {
        const int64_t more = times(elements, product(shape_of(node.input(i)).value_or(Shape{0})));
        o.macs += std::min(more, INT64_MAX - o.macs);
      }
    }
    if (o.type == "dense" || o.type == "matmul") {
      const Shape a = shape_of(node.input(0)).value_or(Shape());
      const bool transposed = node.type == "Gemm" && node.attribute("transA", 0) != 0;
      o.macs = times(product(shape), a.empty() ? 1 : transposed ? a.front() : a.back());
      if (o.type == "matmul" && weights_.contains(node.input(1)))
        o.type = a.size() > 2 ? "linear_nd" : "dense";
    }
    if (o.type == "max_pool2d" || node.type == "AveragePool") {
      const Shape kernel = node.list("kernel_shape"), strides = node.list("strides");
      o.kernel = kernel.empty() ? 0 : static_cast<int>(kernel[0]);
      o.stride = strides.empty() ? 1 : static_cast<int>(strides[0]);
    }
    return o;
  }

  const int batch_;
  const std::vector<TensorSpec>& stated_;
  OnnxModel model_;
  std::map<std::string, int64_t> sizes_;  // of dimensions with a name; -1: it tells nothing
  std::set<std::string> uncounted_;
  std::vector<Node> nodes_;
  std::set<std::string> weights_;
  OnnxShapes known_;
  std::map<std::string, std::set<int>> makers_;  // operators whose results a value holds
};

}  // namespace

Result<OnnxModel> onnx_model_from(std::string_view text, int batch,
                                  const std::vector<TensorSpec>& stated) {
  return Reader(batch, stated).read(text);
}

}  // namespace sluice::trace
