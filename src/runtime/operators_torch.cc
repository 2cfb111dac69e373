#include "runtime/operators_torch.h"

#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

namespace sluice::runtime {
namespace {

using torch::jit::Node;
using torch::jit::Value;
using Values = std::vector<c10::IValue>;

// By the name behind "aten::", without a final "_". Any other is "other".
struct Named {
  std::string_view aten, type;
};
constexpr Named kNames[] = {
    {"_convolution", "conv2d"},
    {"conv1d", "conv2d"},
    {"conv2d", "conv2d"},
    {"conv3d", "conv2d"},
    {"convolution", "conv2d"},
    {"conv_transpose1d", "conv2d"},
    {"conv_transpose2d", "conv2d"},
    {"conv_transpose3d", "conv2d"},
    {"linear", "dense"},
    {"addmm", "dense"},
    {"mm", "matmul"},
    {"bmm", "matmul"},
    {"baddbmm", "matmul"},
    {"matmul", "matmul"},
    {"einsum", "matmul"},
    {"scaled_dot_product_attention", "matmul"},
    {"_scaled_dot_product_attention", "matmul"},
    {"_native_multi_head_attention", "linear_nd"},
    {"_transformer_encoder_layer_fwd", "linear_nd"},
    {"lstm", "linear_nd"},
    {"gru", "linear_nd"},
    {"rnn_tanh", "linear_nd"},
    {"rnn_relu", "linear_nd"},
    {"lstm_cell", "dense"},
    {"gru_cell", "dense"},
    {"rnn_tanh_cell", "dense"},
    {"rnn_relu_cell", "dense"},
    {"batch_norm", "batch_norm"},
    {"group_norm", "layer_norm"},
    {"layer_norm", "layer_norm"},
    {"relu", "relu"},
    {"relu6", "relu"},
    {"hardtanh", "relu"},
    {"leaky_relu", "relu"},
    {"silu", "silu"},
    {"gelu", "gelu"},
    {"hardswish", "hardswish"},
    {"hardsigmoid", "sigmoid"},
    {"sigmoid", "sigmoid"},
    {"tanh", "tanh"},
    {"softmax", "softmax"},
    {"_softmax", "softmax"},
    {"log_softmax", "softmax"},
    {"add", "add"},
    {"sub", "add"},
    {"mul", "mul"},
    {"div", "mul"},
    {"cat", "concat"},
    {"max_pool2d", "max_pool2d"},
    {"avg_pool2d", "avg_pool2d"},
    {"adaptive_avg_pool2d", "avg_pool2d"},
    {"mean", "mean"},
    {"contiguous", "transpose"},
    {"clone", "transpose"},
    {"embedding", "embedding"},
    {"embedding_bag", "embedding"},
};

// Beginnings of names of operators without weights that do far more than read and write their
// tensors.
constexpr std::string_view kHeavy[] = {"fft_",     "_fft", "linalg_",     "cdist",
                                       "_cdist",   "stft", "istft",       "inverse",
                                       "cholesky", "svd",  "grid_sampler"};

bool is_tensor(const c10::IValue& v) {
  return v.isTensor() && v.toTensor().defined();
}

int64_t product(at::IntArrayRef sizes, size_t from) {
  int64_t n = 1;
  for (size_t i = from; i < sizes.size(); ++i) n *= sizes[i];
  return n;
}

// What the frozen graph has fixed: its weights.
bool is_constant(const Value* v) {
  const Node& maker = *v->node();
  if (maker.kind() == c10::prim::Constant) return true;
  return maker.kind() == c10::prim::ListConstruct &&
         std::all_of(maker.inputs().begin(), maker.inputs().end(), is_constant);
}

// An operator's weights, alone or in lists.
std::vector<at::Tensor> constants_of(const Node& node, const Values& inputs) {
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_constant(node.input(i))) continue;
    if (is_tensor(inputs[i])) all.push_back(inputs[i].toTensor());
    if (inputs[i].isTensorList())
      for (const at::Tensor& t : inputs[i].toTensorVector()) all.push_back(t);
  }
  return all;
}

// Multiply-accumulates of an einsum of two tensors: the product of the sizes of all its indices.
// None for another one.
std::optional<int64_t> einsum_macs(const Values& inputs) {
  const std::string equation = inputs.at(0).toStringRef();
  const std::vector<at::Tensor> tensors = inputs.at(1).toTensorVector();
  if (tensors.size() != 2 || equation.find('.') != equation.npos) return std::nullopt;
  std::map<char, int64_t> sizes;
  size_t tensor = 0;
  int64_t dim = 0;
  for (const char c : equation.substr(0, equation.find("->"))) {
    if (c == ' ') continue;
    if (c == ',') {
      ++tensor;
      dim = 0;
    } else {
      sizes[c] = std::max(sizes[c], tensors.at(tensor).size(dim++));
    }
  }
  int64_t macs = 1;
  for (const auto& [index, size] : sizes) macs *= size;
  return macs;
}

// The first of a list of integers, or the integer.
int first_of(const c10::IValue& v) {
  if (v.isInt()) return static_cast<int>(v.toInt());
  return v.isIntList() && !v.toIntVector().empty() ? static_cast<int>(v.toIntVector()[0]) : 0;
}

class Reader {
 public:
  explicit Reader(int batch) { graph_.batch = batch; }

  void see(const Node& node, const Values& inputs, const Values& outputs) {
    std::set<int> from;
    for (const Value* input : node.inputs()) {
      const auto makers = makers_.find(input);
      if (makers != makers_.end()) from.insert(makers->second.begin(), makers->second.end());
    }
    if (computes(node, inputs, outputs)) {
      Operator o = described(node, inputs, outputs.front().toTensor());
      o.from.assign(from.begin(), from.end());
      from = {static_cast<int>(graph_.operators.size())};
      graph_.operators.push_back(std::move(o));
    } else if (!node.kind().is_aten() && !node.kind().is_prim() && !outputs.empty() &&
               is_tensor(outputs[0])) {
      uncounted_.insert(node.kind().toQualString());
    }
    for (const Value* output : node.outputs()) makers_[output].assign(from.begin(), from.end());
  }

  OperatorGraph take() {
    graph_.uncounted.assign(uncounted_.begin(), uncounted_.end());
    return std::move(graph_);
  }

 private:
  static std::string_view name_of(const Node& node) {
    std::string_view name = node.kind().toUnqualString();
    if (name.size() > 1 && name.back() == '_') name.remove_suffix(1);
    return name;
  }

  // A view shares its input's memory; so does an operator in place, which is named after another
  // one.
  static bool computes(const Node& node, const Values& inputs, const Values& outputs) {
    if (!node.kind().is_aten() || outputs.empty() || !is_tensor(outputs[0])) return false;
    const std::string_view name = node.kind().toUnqualString();
    if (name.back() == '_') return true;
    if (name == "dropout" || name == "size") return false;
    return std::none_of(inputs.begin(), inputs.end(), [&](const c10::IValue& v) {
      return is_tensor(v) && v.toTensor().is_alias_of(outputs[0].toTensor());
    });
  }

  Operator described(const Node& node, const Values& inputs, const at::Tensor& out) {
    Operator o;
    const std::string_view name = name_of(node);
    for (const Named& n : kNames)
      if (n.aten == name) o.type = n.type;
    o.out = out.sizes().vec();
    for (size_t i = 0; i < inputs.size() && o.in.empty(); ++i) {
      if (is_constant(node.input(i))) continue;
      if (is_tensor(inputs[i])) o.in = inputs[i].toTensor().sizes().vec();
      if (inputs[i].isTensorList() && !inputs[i].toTensorVector().empty())
        o.in = inputs[i].toTensorVector()[0].sizes().vec();
    }
    const std::vector<at::Tensor> weights = constants_of(node, inputs);
    for (const at::Tensor& weight : weights) o.parameters += weight.numel();
    if (o.type == "conv2d") describe_convolution(name, inputs, out, o);
    if (o.type == "dense" || o.type == "matmul" || o.type == "linear_nd")
      describe_product(node, inputs, weights, out, o);
    const bool heavy = std::any_of(std::begin(kHeavy), std::end(kHeavy),
                                   [&](std::string_view begin) { return name.starts_with(begin); });
    const bool has_matrix = std::any_of(weights.begin(), weights.end(),
                                        [](const at::Tensor& w) { return w.dim() > 1; });
    if (heavy || (o.type == "other" && has_matrix)) uncounted_.insert(node.kind().toQualString());
    if (o.type.ends_with("pool2d") && inputs.size() > 2 && name != "adaptive_avg_pool2d") {
      o.kernel = first_of(inputs[1]);
      o.stride = first_of(inputs[2]);
    }
    return o;
  }

  static void describe_convolution(std::string_view name, const Values& inputs,
                                   const at::Tensor& out, Operator& o) {
    const at::Tensor& in = inputs.at(0).toTensor();
    const at::IntArrayRef weight = inputs.at(1).toTensor().sizes();
    const bool any = name == "_convolution" || name == "convolution";
    const bool transposed = any ? inputs.at(6).toBool() : name.starts_with("conv_transpose");
    o.kernel = weight.size() > 2 ? static_cast<int>(weight[2]) : 1;
    o.stride = first_of(inputs.at(3));
    o.groups = static_cast<int>(inputs.at(any ? 8 : 6).toInt());
    // Weights are out, in ÷ groups, height, width; of a transposed one in, out ÷ groups, height,
    // width.
    o.macs = (transposed ? in : out).numel() * product(weight, 1);
    if (o.groups > 1 && weight[1] == 1) o.type = "dwconv2d";
  }

  void describe_product(const Node& node, const Values& inputs,
                        const std::vector<at::Tensor>& weights, const at::Tensor& out,
                        Operator& o) {
    const std::string_view name = name_of(node);
    if (name == "einsum") {
      const auto macs = einsum_macs(inputs);
      if (!macs) uncounted_.insert(node.kind().toQualString());
      o.macs = macs.value_or(0);
    } else if (name.ends_with("scaled_dot_product_attention")) {
      // Of queries, keys and values: one product with each of the other two.
      const int64_t keys = inputs.at(1).toTensor().size(-2);
      o.macs = (inputs.at(0).toTensor().numel() + out.numel()) * keys;
    } else if (o.type == "linear_nd" || name.ends_with("_cell")) {
      describe_layer(name, inputs, weights, o);
    } else {
      const size_t left = name == "addmm" || name == "baddbmm" ? 1 : 0;
      const at::IntArrayRef a = inputs.at(left).toTensor().sizes();
      o.macs = out.numel() * (a.empty() ? 1 : a.back());
      if (o.type == "dense" && a.size() > 2) o.type = "linear_nd";
    }
  }

  // A whole layer: each row of its input meets each of its matrices once. Layers of attention then
  // compare all rows of a sequence, twice.
  static void describe_layer(std::string_view name, const Values& inputs,
                             const std::vector<at::Tensor>& weights, Operator& o) {
    const at::Tensor& in = inputs.at(0).toTensor();
    const int64_t width = std::max<int64_t>(in.dim() > 0 ? in.size(-1) : 1, 1);
    const int64_t rows = in.numel() / width;
    for (const at::Tensor& weight : weights)
      if (weight.dim() == 2) o.macs += rows * weight.numel();
    const bool attends =
        name == "_transformer_encoder_layer_fwd" || name == "_native_multi_head_attention";
    if (attends && in.dim() == 3) o.macs += 2 * in.numel() * in.size(1);
  }

  OperatorGraph graph_;
  std::set<std::string> uncounted_;
  std::unordered_map<const Value*, std::vector<int>> makers_;  // operators whose results it holds
};

}  // namespace

Result<OperatorGraph> operators_of(torch::jit::Module module, Values inputs, int batch) {
  const c10::InferenceMode no_autograd;
  module.eval();
  const torch::jit::Module frozen = torch::jit::freeze(module, c10::nullopt, false);
  std::shared_ptr<torch::jit::Graph> graph = frozen.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  inputs.insert(inputs.begin(),
                c10::IValue());  // the module itself, which a frozen graph does not read
  auto executor = GraphExecutor::compile(graph);
  if (!executor)
    return Error{ErrorKind::kInvalid,
                 "has control flow, so its operators depend on its inputs; torch.jit.trace makes a "
                 "module without"};
  Reader reader(batch);
  executor->run(
      std::move(inputs), nullptr,
      [&](const Node& node, const Values& in, const Values& out) { reader.see(node, in, out); });
  return reader.take();
}

}  // namespace sluice::runtime
