#include "runtime/operators_torch.h"

#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
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
    {"linear", "dense"},
    {"addmm", "dense"},
    {"mm", "matmul"},
    {"bmm", "matmul"},
    {"baddbmm", "matmul"},
    {"matmul", "matmul"},
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
};

bool is_tensor(const c10::IValue& v) {
  return v.isTensor() && v.toTensor().defined();
}

int64_t product(at::IntArrayRef sizes, size_t from) {
  int64_t n = 1;
  for (size_t i = from; i < sizes.size(); ++i) n *= sizes[i];
  return n;
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
    }
    for (const Value* output : node.outputs()) makers_[output].assign(from.begin(), from.end());
  }

  OperatorGraph take() { return std::move(graph_); }

 private:
  static std::string_view name_of(const Node& node) {
    std::string_view name = node.kind().toUnqualString();
    if (name.size() > 1 && name.back() == '_') name.remove_suffix(1);
    return name;
  }

  // A view shares its input's memory; so does an operator in place, which is named after another one.
  static bool computes(const Node& node, const Values& inputs, const Values& outputs) {
    if (!node.kind().is_aten() || outputs.empty() || !is_tensor(outputs[0])) return false;
    const std::string_view name = node.kind().toUnqualString();
    if (name.back() == '_') return true;
    if (name == "dropout" || name == "size") return false;
    return std::none_of(inputs.begin(), inputs.end(), [&](const c10::IValue& v) {
      return is_tensor(v) && v.toTensor().is_alias_of(outputs[0].toTensor());
    });
  }

  static Operator described(const Node& node, const Values& inputs, const at::Tensor& out) {
    Operator o;
    const std::string_view name = name_of(node);
    for (const Named& n : kNames)
      if (n.aten == name) o.type = n.type;
    o.out = out.sizes().vec();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_tensor(inputs[i])) continue;
      const bool constant = node.input(i)->node()->kind() == c10::prim::Constant;
      if (constant)
        o.parameters += inputs[i].toTensor().numel();
      else if (o.in.empty())
        o.in = inputs[i].toTensor().sizes().vec();
    }
    if (o.type == "conv2d") describe_convolution(name, inputs, out, o);
    if (o.type == "dense" || o.type == "matmul") describe_product(name, inputs, out, o);
    if (o.type.ends_with("pool2d") && inputs.size() > 2 && name != "adaptive_avg_pool2d") {
      o.kernel = first_of(inputs[1]);
      o.stride = first_of(inputs[2]);
    }
    return o;
  }

  static void describe_convolution(std::string_view name, const Values& inputs,
                                   const at::Tensor& out, Operator& o) {
    const at::IntArrayRef weight =
        inputs.at(1).toTensor().sizes();  // out, in ÷ groups, height, width
    const size_t groups = name == "_convolution" || name == "convolution" ? 8 : 6;
    o.kernel = weight.size() > 2 ? static_cast<int>(weight[2]) : 1;
    o.stride = first_of(inputs.at(3));
    o.groups = static_cast<int>(inputs.at(groups).toInt());
    o.macs = out.numel() * product(weight, 1);
    if (o.groups > 1 && weight[1] == 1) o.type = "dwconv2d";
  }

  static void describe_product(std::string_view name, const Values& inputs, const at::Tensor& out,
                               Operator& o) {
    const size_t left = name == "addmm" || name == "baddbmm" ? 1 : 0;
    const at::IntArrayRef a = inputs.at(left).toTensor().sizes();
    o.macs = out.numel() * (a.empty() ? 1 : a.back());
    if (o.type == "dense" && a.size() > 2) o.type = "linear_nd";
  }

  OperatorGraph graph_;
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
