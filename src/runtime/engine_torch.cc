#include "runtime/engine_torch.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/script.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include "runtime/executor_torch.h"
#include "runtime/operators_torch.h"
#include "runtime/sample.h"
#include "runtime/stored_tensors.h"
#include "runtime/torch_errors.h"

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
  // `defaults`: of the arguments behind its inputs.
  TorchModel(ModelSpec spec, std::vector<c10::IValue> defaults, std::vector<at::Tensor> weights)
      : spec_(std::move(spec)), defaults_(std::move(defaults)), weights_(std::move(weights)) {}
  void run_by(GraphExecutor executor) { executor_ = std::move(executor); }
  void run_by(GatedInterpreter interpreter) { interpreter_ = std::move(interpreter); }

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, Gate* gate) override {
    fails_always_ = false;
    try {
      const c10::InferenceMode no_autograd;
      std::vector<c10::IValue> values;
      // The executor's first input is the module itself, of which freezing has left nothing.
      if (executor_) values.emplace_back();
      for (const Tensor& t : inputs) values.emplace_back(borrow(t));
      values.insert(values.end(), defaults_.begin(), defaults_.end());
      std::vector<at::Tensor> tensors;
      for (const c10::IValue& v : executor_ ? executor_->run(std::move(values), gate)
                                            : interpreter_->run(std::move(values), gate))
        if (const auto flat = flatten(v, tensors); !flat.ok()) {
          fails_always_ = true;
          return Error{ErrorKind::kInternal, flat.error().message};  // not the caller's fault
        }
      auto answered = answer(tensors);
      fails_always_ = !answered.ok();
      return answered;
    } catch (const std::exception& e) {
      TorchError failed = explained(e, ErrorKind::kInternal);
      fails_always_ = failed.always;
      // Each text once, so that a client that repeats its request does not fill the log.
      if (failed.whole != logged_) log_whole(spec_.path, failed.whole);
      logged_ = std::move(failed.whole);
      return failed.error;
    }
  }

  bool fails_always() const override { return fails_always_; }

  Result<void> share_weights(sluice_store* store, const std::string& name) override {
    try {
      return share_tensors(store, name, weights_, kStoreWaitMs);
    } catch (const std::exception& e) {
      return explained(e, ErrorKind::kInternal).error;
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
  const std::vector<c10::IValue> defaults_;
  bool fails_always_ = false;
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

std::unique_ptr<Model> optimised(torch::jit::Module module, const ModelSpec& spec,
                                 std::vector<c10::IValue> defaults) {
  torch::jit::Module frozen = torch::jit::freeze(module);
  if (has_convolution(*frozen.get_method("forward").graph()))
    frozen = torch::jit::optimize_for_inference(frozen);
  auto graph = frozen.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  // Optimising leaves unused constants: a linear layer's weights before transposition.
  torch::jit::EliminateDeadCode(graph);
  auto model = std::make_unique<TorchModel>(spec, std::move(defaults), weights_of(*graph->block()));
  if (auto executor = GraphExecutor::compile(graph))
    model->run_by(std::move(*executor));
  else
    model->run_by(GatedInterpreter(std::move(frozen)));
  return model;
}

// The arguments of forward(), behind the module itself.
struct Arguments {
  std::vector<std::string> inputs;    // tensors that a call must have
  std::vector<std::string> optional;  // tensors behind them that it may have
  std::vector<c10::IValue> defaults;  // of all behind `inputs`
};

// Returns kInvalid if forward() takes something else than tensors, without a default for it.
Result<Arguments> arguments_of(const torch::jit::Module& module) {
  const c10::FunctionSchema schema = module.get_method("forward").function().getSchema();
  const c10::TypePtr optional = c10::OptionalType::create(c10::TensorType::get());
  Arguments found;
  for (size_t i = 1; i < schema.arguments().size(); ++i) {
    const c10::Argument& a = schema.arguments()[i];
    const bool is_tensor = a.type()->isSubtypeOf(*optional);
    if (a.default_value()) {
      if (is_tensor && found.optional.size() == found.defaults.size())
        found.optional.push_back(a.name());
      found.defaults.push_back(*a.default_value());
      continue;
    }
    if (!is_tensor)
      return Error{ErrorKind::kInvalid,
                   "forward() takes '" + a.name() + "', a " + a.type()->str() +
                       "; only tensors are supported as inputs, beside arguments with defaults"};
    if (!found.defaults.empty())
      return Error{ErrorKind::kInvalid, "forward() takes '" + a.name() +
                                            "' behind arguments with defaults; put it before them"};
    found.inputs.push_back(a.name());
  }
  return found;
}

// Returns the defaults behind so many inputs. Returns kInvalid if forward() does not take that
// many.
Result<std::vector<c10::IValue>> defaults_behind(size_t inputs, const Arguments& arguments,
                                                 const std::string& said) {
  const size_t least = arguments.inputs.size(), most = least + arguments.optional.size();
  if (inputs < least || inputs > most)
    return Error{ErrorKind::kInvalid, "the model takes " + std::to_string(least) +
                                          (most > least ? " to " + std::to_string(most) : "") +
                                          " inputs, " + said + " " + std::to_string(inputs)};
  return std::vector<c10::IValue>(
      arguments.defaults.begin() + static_cast<std::ptrdiff_t>(inputs - least),
      arguments.defaults.end());
}

// The place of an error of load: a cause of ours says all.
std::string not_loaded(const std::string& path, const TorchError& failed) {
  return failed.known ? path : path + ": no TorchScript model, or cut short";
}

// The opened file, for torch's reader.
class Contents : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit Contents(std::shared_ptr<const RegularFile> file) : file_(std::move(file)) {}
  size_t size() const override { return file_->size(); }
  size_t read(uint64_t offset, void* to, size_t count, const char*) const override {
    return file_->read(offset, to, count);
  }

 private:
  const std::shared_ptr<const RegularFile> file_;
};

// Weights in 8 bits are packed as they are read, for the engine that is selected then.
void select_quantized_engine() {
  const auto& engines = at::Context::supportedQEngines();
  if (std::ranges::find(engines, at::QEngine::ONEDNN) != engines.end())
    at::globalContext().setQEngine(at::QEngine::ONEDNN);
}

torch::jit::Module module_of(const ModelFile& file) {
  select_quantized_engine();
  torch::jit::Module module = torch::jit::load(std::make_shared<Contents>(file.opened), at::kCPU);
  module.eval();
  return module;
}

}  // namespace

Result<std::unique_ptr<Model>> load_torchscript(const ModelFile& file) {
  const ModelSpec& spec = file.spec;
  if (const auto types = types_exist(spec); !types.ok()) return within(spec.path, types.error());
  // A thread's number of threads is its own; the loader's must not start workers before a fork.
  at::set_num_threads(1);
  try {
    torch::jit::Module module = module_of(file);
    const auto arguments = arguments_of(module);
    if (!arguments.ok()) return within(spec.path, arguments.error());
    auto defaults = defaults_behind(spec.inputs.size(), *arguments, "its metadata says");
    if (!defaults.ok()) return within(spec.path, defaults.error());
    return optimised(std::move(module), spec, std::move(*defaults));
  } catch (const std::exception& e) {
    TorchError failed = explained(e, ErrorKind::kInvalid);
    log_whole(spec.path, failed.whole);
    return within(not_loaded(spec.path, failed), std::move(failed.error));
  }
}

namespace {

std::vector<c10::IValue> samples(const std::vector<TensorSpec>& inputs, const SampleOf& otherwise,
                                 const std::vector<c10::IValue>& defaults) {
  std::vector<c10::IValue> values;
  for (const TensorSpec& input : inputs) {
    const auto t = sample_of(input, otherwise);
    if (!t.ok()) throw std::invalid_argument(t.error().message);
    values.emplace_back(
        at::from_blob(const_cast<char*>(t->data.data()), t->shape, *theirs(t->datatype)).clone());
  }
  values.insert(values.end(), defaults.begin(), defaults.end());
  return values;
}

// What a model returns, run with inputs of two sizes and of two values. A dimension that differs
// between two of the runs is a variable one. One that is 0 depends on the values.
class Probes {
 public:
  Probes(torch::jit::Module& module, const std::vector<TensorSpec>& inputs,
         const std::vector<c10::IValue>& defaults)
      : module_(module), inputs_(inputs), defaults_(defaults) {}

  // Returns the outputs' list. Returns the first failure if the model refuses all probes, and an
  // error if it returns something else than tensors.
  Result<nlohmann::json> outputs() {
    // Far apart, so that few models make one size of them; the first pair is of images and text.
    constexpr std::pair<int64_t, int64_t> kSizes[] = {
        {64, 256}, {16, 48}, {16'000, 48'000}, {2, 3}};
    Error first;
    for (const double value : {0.0, 1.0})
      for (const auto& [smaller, larger] : kSizes) {
        runs_.clear();
        auto ran = run({.batch = 2, .size = smaller, .value = value});
        if (ran.ok()) ran = run({.batch = 3, .size = larger, .value = value});
        if (ran.ok()) {
          (void)run({.batch = 3, .size = larger, .value = 1 - value});
          return described();
        }
        if (first.message.empty() || ran.error().kind == ErrorKind::kInvalid) first = ran.error();
        if (first.kind == ErrorKind::kInvalid) return first;
        if (one_size()) break;
      }
    return first;
  }

 private:
  // Whether no dimension takes its size from the pair.
  bool one_size() const {
    return std::ranges::all_of(inputs_, [](const TensorSpec& t) {
      for (size_t i = 1; i < t.shape.size(); ++i)
        if (t.shape[i] < 0 && (i >= t.sizes.size() || t.sizes[i] < 0)) return false;
      return true;
    });
  }

  // Returns kInvalid for an answer that is not served, another kind if the model refuses the
  // values.
  Result<void> run(const SampleOf& values) {
    try {
      const c10::InferenceMode no_autograd;
      std::vector<at::Tensor> outputs;
      SLUICE_TRY(flatten(module_.forward(samples(inputs_, values, defaults_)), outputs));
      if (runs_.empty() || runs_[0].size() == outputs.size()) runs_.push_back(std::move(outputs));
      return {};
    } catch (const std::exception& e) {
      TorchError failed = explained(e, ErrorKind::kInternal);
      failed.error.kind = failed.always ? ErrorKind::kInvalid : ErrorKind::kInternal;
      return failed.error;
    }
  }

  nlohmann::json described() const {
    nlohmann::json out = nlohmann::json::array();
    for (size_t i = 0; i < runs_[0].size(); ++i) {
      const at::Tensor& one = runs_[0][i];
      Shape shape = one.sizes().vec();
      for (size_t d = 0; d < shape.size(); ++d)
        for (const std::vector<at::Tensor>& other : runs_)
          if (other[i].dim() == one.dim() && (other[i].size(d) != one.size(d) || one.size(d) == 0))
            shape[d] = -1;
      const std::optional<Datatype> datatype = ours(one.scalar_type());
      out.push_back({{"name", "output"},
                     {"datatype", datatype ? to_string(*datatype) : "FILL-IN"},
                     {"shape", shape}});
    }
    return out;
  }

  torch::jit::Module& module_;
  const std::vector<TensorSpec>& inputs_;
  const std::vector<c10::IValue>& defaults_;
  std::vector<std::vector<at::Tensor>> runs_;  // the outputs of each
};

}  // namespace

Result<nlohmann::json> inspect_torchscript(const ModelFile& file) {
  const std::string& path = file.spec.path;
  const std::vector<TensorSpec>& inputs = file.spec.inputs;
  try {
    torch::jit::Module module = module_of(file);
    const auto arguments = arguments_of(module);
    if (!arguments.ok()) return within(path, arguments.error());
    const c10::TypePtr type =
        module.get_method("forward").function().getSchema().returns().at(0).type();
    if (type->kind() == c10::TypeKind::DictType) return within(path, not_served(*type));
    nlohmann::json found{{"inputs", arguments->inputs}, {"outputs", nullptr}};
    if (!arguments->optional.empty()) found["optional"] = arguments->optional;
    if (type->kind() == c10::TypeKind::TensorType) found["outputs"] = 1;
    if (type->kind() == c10::TypeKind::TupleType) found["outputs"] = type->containedTypes().size();
    if (inputs.empty()) return found;
    const auto defaults = defaults_behind(inputs.size(), *arguments, "of which are stated");
    if (!defaults.ok()) return found;  // the caller compares them with `inputs`
    const auto outputs = Probes(module, inputs, *defaults).outputs();
    if (outputs.ok())
      found["outputs"] = *outputs;
    else if (outputs.error().kind == ErrorKind::kInvalid)
      return within(path, outputs.error());
    else
      found["refused"] = outputs.error().message;
    return found;
  } catch (const std::exception& e) {
    const TorchError failed = explained(e, ErrorKind::kInvalid);
    return within(not_loaded(path, failed), failed.error);
  }
}

Result<OperatorGraph> operators_of_torchscript(const ModelFile& file, int batch) {
  const std::string& path = file.spec.path;
  const std::vector<TensorSpec>& inputs = file.spec.inputs;
  try {
    const torch::jit::Module module = module_of(file);
    const auto arguments = arguments_of(module);
    if (!arguments.ok()) return within(path, arguments.error());
    const auto defaults = defaults_behind(inputs.size(), *arguments, "of which are stated");
    if (!defaults.ok())
      return within(path, Error{ErrorKind::kInvalid, defaults.error().message +
                                                         "; its operators depend on their shapes"});
    auto graph =
        operators_of(module, samples(inputs, {.batch = batch, .size = batch}, *defaults), batch);
    if (!graph.ok()) return within(path, graph.error());
    return graph;
  } catch (const std::exception& e) {
    return within(path, explained(e, ErrorKind::kInvalid).error);
  }
}

}  // namespace sluice::runtime
