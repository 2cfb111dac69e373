#include "runtime/engine_torch.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/script.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "runtime/executor_torch.h"
#include "runtime/operators_torch.h"
#include "runtime/stored_tensors.h"

namespace sluice::runtime {
namespace {

constexpr int64_t kStoreWaitMs = 60'000;  // for another process that loads the same model

struct TypePair {
  Datatype ours;
  at::ScalarType theirs;
};
// The types of libtorch 1.13, which lacks the wider unsigned integers and BYTES.
constexpr TypePair kTypes[] = {
    {Datatype::kBool, at::kBool},   {Datatype::kUint8, at::kByte},    {Datatype::kInt8, at::kChar},
    {Datatype::kInt16, at::kShort}, {Datatype::kInt32, at::kInt},     {Datatype::kInt64, at::kLong},
    {Datatype::kFp16, at::kHalf},   {Datatype::kBf16, at::kBFloat16}, {Datatype::kFp32, at::kFloat},
    {Datatype::kFp64, at::kDouble},
};

std::optional<at::ScalarType> theirs(Datatype d) {
  const auto* found = std::ranges::find(kTypes, d, &TypePair::ours);
  return found == std::end(kTypes) ? std::nullopt : std::optional(found->theirs);
}

std::optional<Datatype> ours(at::ScalarType t) {
  const auto* found = std::ranges::find(kTypes, t, &TypePair::theirs);
  return found == std::end(kTypes) ? std::nullopt : std::optional(found->ours);
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

// Returns the line with the cause: the last one of the interpreter's text, which quotes the model's
// lines before it; the first one of all others.
std::string_view cause_of(std::string_view text) {
  if (text.find("Traceback of TorchScript") == text.npos) return first_line(text);
  const size_t end = text.find_last_not_of(" \r\n");
  text = text.substr(0, end == text.npos ? 0 : end + 1);
  return text.substr(text.rfind('\n') + 1);
}

// The message is the cause in one line. `whole` gets the whole text if it says more.
Error torch_error(const std::exception& e, ErrorKind otherwise, std::string& whole) {
  const bool callers_fault = dynamic_cast<const c10::IndexError*>(&e) != nullptr ||
                             dynamic_cast<const c10::ValueError*>(&e) != nullptr;
  const auto* torch = dynamic_cast<const c10::Error*>(&e);
  const std::string text = torch ? torch->what_without_backtrace() : e.what();
  const std::string_view cause = cause_of(text);
  whole = text.size() > cause.size() + 1 ? text : "";
  return {callers_fault ? ErrorKind::kInvalid : otherwise, std::string(cause)};
}

// Into the log of the process: an instance's, or the zygote's when a model is loaded.
void log_whole(const std::string& path, const std::string& text) {
  if (!text.empty()) std::fprintf(stderr, "%s: torch says:\n%s\n", path.c_str(), text.c_str());
}

// Models written as scripts keep their control flow, which only torch's interpreter runs. There the
// callback of every outermost operator passes the gate.
class GatedInterpreter {
 public:
  explicit GatedInterpreter(torch::jit::Module module) : module_(std::move(module)) {}

  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, Gate* gate) {
    gate_ = gate;
    depth_ = 0;
    const auto handle = at::addThreadLocalCallback(
        at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION}));
    const auto removed = std::shared_ptr<void>(nullptr, [&](void*) { at::removeCallback(handle); });
    return {module_.forward(std::move(inputs))};
  }

 private:
  // Callbacks are plain functions, so their state has to be found from the thread.
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction&) {
    if (depth_++ == 0 && gate_ != nullptr) gate_->pass();
    return nullptr;
  }
  static void end(const at::RecordFunction&, at::ObserverContext*) { --depth_; }

  static inline thread_local Gate* gate_ = nullptr;
  static inline thread_local int depth_ = 0;
  torch::jit::Module module_;
};

bool has_convolution(const torch::jit::Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const torch::jit::Node* node) {
    return node->kind() == c10::aten::_convolution || node->kind() == c10::aten::conv2d;
  });
}

Error not_served(const c10::Type& returned) {
  return {ErrorKind::kInvalid,
          "the model returns " + returned.repr_str() +
              "; Sluice serves a tensor, or a tuple or list of tensors: wrap the model in a module "
              "whose forward() returns one of these, such as tuple(answer.values()) of a dict"};
}

// Appends the tensors of a model's answer: one, or those of a tuple or list. Returns kInvalid if
// the answer has a value of another type.
Result<void> flatten(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    tensors.push_back(value.toTensor());
  } else if (value.isTuple()) {
    for (const c10::IValue& v : value.toTupleRef().elements()) SLUICE_TRY(flatten(v, tensors));
  } else if (value.isList()) {
    for (const c10::IValue& v : value.toListRef()) SLUICE_TRY(flatten(v, tensors));
  } else {
    return not_served(*value.type());
  }
  return {};
}

// Returns the constants of a frozen graph. Those in oneDNN's layout are another kind of node.
std::vector<at::Tensor> weights_of(const torch::jit::Block& block) {
  std::vector<at::Tensor> weights;
  for (const torch::jit::Node* node : block.nodes()) {
    if (node->kind() == c10::prim::Constant && node->hasAttribute(c10::attr::value) &&
        node->kindOf(c10::attr::value) == torch::jit::AttributeKind::t)
      weights.push_back(node->t(c10::attr::value));
    for (const torch::jit::Block* inner : node->blocks())
      for (at::Tensor& weight : weights_of(*inner)) weights.push_back(std::move(weight));
  }
  return weights;
}

class TorchModel : public Model {
 public:
  TorchModel(ModelSpec spec, GraphExecutor executor, std::vector<at::Tensor> weights)
      : spec_(std::move(spec)), executor_(std::move(executor)), weights_(std::move(weights)) {}
  TorchModel(ModelSpec spec, GatedInterpreter interpreter, std::vector<at::Tensor> weights)
      : spec_(std::move(spec)),
        interpreter_(std::move(interpreter)),
        weights_(std::move(weights)) {}

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, Gate* gate) override {
    try {
      const c10::InferenceMode no_autograd;
      std::vector<c10::IValue> values;
      // The executor's first input is the module itself, of which freezing has left nothing.
      if (executor_) values.emplace_back();
      for (const Tensor& t : inputs) values.emplace_back(borrow(t));
      std::vector<at::Tensor> tensors;
      for (const c10::IValue& v : executor_ ? executor_->run(std::move(values), gate)
                                            : interpreter_->run(std::move(values), gate))
        if (const auto flat = flatten(v, tensors); !flat.ok())
          return Error{ErrorKind::kInternal, flat.error().message};  // not the caller's fault
      return answer(tensors);
    } catch (const std::exception& e) {
      std::string whole;
      Error error = torch_error(e, ErrorKind::kInternal, whole);
      // Each text once, so that a client that repeats its request does not fill the log.
      if (whole != logged_) log_whole(spec_.path, whole);
      logged_ = std::move(whole);
      return error;
    }
  }

  Result<void> share_weights(sluice_store* store, const std::string& name) override {
    try {
      return share_tensors(store, name, weights_, kStoreWaitMs);
    } catch (const std::exception& e) {
      std::string whole;
      return torch_error(e, ErrorKind::kInternal, whole);
    }
  }

  void set_threads(int threads) override { at::set_num_threads(threads); }
  void after_fork() override {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.seed();
  }

 private:
  static at::Tensor borrow(const Tensor& t) {
    return at::from_blob(const_cast<char*>(t.data.data()), t.shape, *theirs(t.datatype));
  }

  Result<std::vector<Tensor>> answer(const std::vector<at::Tensor>& tensors) const {
    if (tensors.size() != spec_.outputs.size())
      return Error{ErrorKind::kInternal, "the model has " + std::to_string(tensors.size()) +
                                             " outputs, its metadata says " +
                                             std::to_string(spec_.outputs.size())};
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string& name = spec_.outputs[i].name;
      const at::Tensor t =
          (tensors[i].is_mkldnn() ? tensors[i].to_dense() : tensors[i]).contiguous();
      const std::optional<Datatype> datatype = ours(t.scalar_type());
      if (!datatype || to_string(*datatype) != spec_.outputs[i].datatype)
        return Error{ErrorKind::kInternal, "output '" + name + "' is " +
                                               c10::toString(t.scalar_type()) +
                                               ", its metadata says " + spec_.outputs[i].datatype};
      outputs.push_back({name, *datatype, t.sizes().vec(),
                         std::string(static_cast<const char*>(t.data_ptr()), t.nbytes())});
    }
    return outputs;
  }

  const ModelSpec spec_;
  std::string logged_;  // the last of torch's texts that went to the log
  std::optional<GraphExecutor> executor_;
  std::optional<GatedInterpreter> interpreter_;
  const std::vector<at::Tensor> weights_;  // the graph's own, in torch's layout
};

Result<void> types_exist(const ModelSpec& spec) {
  const auto both = {&spec.inputs, &spec.outputs};
  for (const auto* tensors : both)
    for (const TensorSpec& t : *tensors)
      if (!theirs(*datatype_from(t.datatype)))
        return Error{ErrorKind::kInvalid, "'" + t.name + "': TorchScript has no " + t.datatype};
  return {};
}

std::unique_ptr<Model> optimised(torch::jit::Module module, const ModelSpec& spec) {
  torch::jit::Module frozen = torch::jit::freeze(module);
  if (has_convolution(*frozen.get_method("forward").graph()))
    frozen = torch::jit::optimize_for_inference(frozen);
  auto graph = frozen.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  // Optimising leaves unused constants: a linear layer's weights before transposition.
  torch::jit::EliminateDeadCode(graph);
  std::vector<at::Tensor> weights = weights_of(*graph->block());
  if (auto executor = GraphExecutor::compile(graph))
    return std::make_unique<TorchModel>(spec, std::move(*executor), std::move(weights));
  return std::make_unique<TorchModel>(spec, GatedInterpreter(std::move(frozen)),
                                      std::move(weights));
}

}  // namespace

Result<std::unique_ptr<Model>> load_torchscript(const ModelFile& file) {
  const ModelSpec& spec = file.spec;
  if (const auto types = types_exist(spec); !types.ok()) return within(spec.path, types.error());
  // A thread's number of threads is its own; the loader's must not start workers before a fork.
  at::set_num_threads(1);
  try {
    torch::jit::Module module = torch::jit::load(spec.path, at::kCPU);
    module.eval();
    const size_t takes = module.get_method("forward").graph()->inputs().size() - 1;
    if (takes != spec.inputs.size())
      return Error{ErrorKind::kInvalid, spec.path + ": the model takes " + std::to_string(takes) +
                                            " inputs, its metadata says " +
                                            std::to_string(spec.inputs.size())};
    return optimised(std::move(module), spec);
  } catch (const std::exception& e) {
    std::string whole;
    Error error = torch_error(e, ErrorKind::kInvalid, whole);
    log_whole(spec.path, whole);
    return within(spec.path + ": no TorchScript model, or cut short", std::move(error));
  }
}

namespace {

// With `variable` in place of each variable dimension.
std::vector<c10::IValue> zeros(const std::vector<TensorSpec>& inputs, int64_t variable) {
  std::vector<c10::IValue> values;
  for (const TensorSpec& t : inputs) {
    Shape shape = t.shape;
    std::ranges::replace(shape, -1, variable);
    values.emplace_back(at::zeros(shape, *theirs(*datatype_from(t.datatype))));
  }
  return values;
}

// Returns forward()'s results for zeros.
Result<std::vector<at::Tensor>> run_once(torch::jit::Module& module,
                                         const std::vector<TensorSpec>& inputs, int64_t variable) {
  const c10::InferenceMode no_autograd;
  std::vector<at::Tensor> outputs;
  SLUICE_TRY(flatten(module.forward(zeros(inputs, variable)), outputs));
  return outputs;
}

// A dimension that differs between two runs of different sizes is a variable one.
Result<nlohmann::json> outputs_of(torch::jit::Module& module,
                                  const std::vector<TensorSpec>& inputs) {
  nlohmann::json out = nlohmann::json::array();
  SLUICE_ASSIGN(two, run_once(module, inputs, 2));
  SLUICE_ASSIGN(three, run_once(module, inputs, 3));
  for (size_t i = 0; i < two.size(); ++i) {
    Shape shape = two[i].sizes().vec();
    for (size_t d = 0; d < shape.size(); ++d)
      if (i < three.size() && three[i].dim() == two[i].dim() && three[i].size(d) != shape[d])
        shape[d] = -1;
    const std::optional<Datatype> datatype = ours(two[i].scalar_type());
    out.push_back({{"name", "output"},
                   {"datatype", datatype ? to_string(*datatype) : "FILL-IN"},
                   {"shape", shape}});
  }
  return out;
}

}  // namespace

Result<nlohmann::json> inspect_torchscript(const std::string& path,
                                           const std::vector<TensorSpec>& inputs) {
  try {
    torch::jit::Module module = torch::jit::load(path, at::kCPU);
    module.eval();
    const c10::FunctionSchema& schema = module.get_method("forward").function().getSchema();
    nlohmann::json names = nlohmann::json::array(), outputs;
    for (size_t i = 1; i < schema.arguments().size(); ++i) {  // behind the module itself
      const c10::Argument& argument = schema.arguments()[i];
      if (argument.type()->kind() != c10::TypeKind::TensorType)
        return Error{ErrorKind::kInvalid, path + ": forward() takes '" + argument.name() + "', a " +
                                              argument.type()->str() +
                                              "; only tensors are supported as inputs"};
      names.push_back(argument.name());
    }
    const c10::TypePtr type = schema.returns().at(0).type();
    if (type->kind() == c10::TypeKind::DictType) return within(path, not_served(*type));
    if (!inputs.empty() && inputs.size() == names.size()) {
      const auto found = outputs_of(module, inputs);
      if (!found.ok()) return within(path, found.error());
      outputs = *found;
    } else if (type->kind() == c10::TypeKind::TensorType) {
      outputs = 1;
    } else if (type->kind() == c10::TypeKind::TupleType) {
      outputs = type->containedTypes().size();
    }
    return nlohmann::json{{"inputs", names}, {"outputs", outputs}};
  } catch (const std::exception& e) {
    std::string whole;
    return within(path, torch_error(e, ErrorKind::kInvalid, whole));
  }
}

Result<OperatorGraph> operators_of_torchscript(const std::string& path,
                                               const std::vector<TensorSpec>& inputs, int batch) {
  try {
    const torch::jit::Module module = torch::jit::load(path, at::kCPU);
    const size_t takes = module.get_method("forward").graph()->inputs().size() - 1;
    if (takes != inputs.size())
      return Error{ErrorKind::kInvalid, path + ": takes " + std::to_string(takes) +
                                            " inputs, of which " + std::to_string(inputs.size()) +
                                            " are told; its operators depend on their shapes"};
    auto graph = operators_of(module, zeros(inputs, batch), batch);
    if (!graph.ok()) return within(path, graph.error());
    return graph;
  } catch (const std::exception& e) {
    std::string whole;
    return within(path, torch_error(e, ErrorKind::kInvalid, whole));
  }
}

}  // namespace sluice::runtime
