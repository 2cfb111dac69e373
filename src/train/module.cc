#include "train/module.h"

#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/script.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <map>
#include <utility>

#include "base/copy_file.h"
#include "base/system_error.h"

namespace sluice::train {
namespace {

constexpr double kMostFloat = std::numeric_limits<float>::max();
constexpr int64_t kBucketNumbers = int64_t{25} * 1024 * 1024 / sizeof(float);  // as DDP's: 25 MiB

torch::ScalarType type_of(std::string_view numpy) {
  constexpr std::pair<std::string_view, torch::ScalarType> kTypes[] = {
      {"<f4", torch::kFloat}, {"<f8", torch::kDouble}, {"<f2", torch::kHalf},
      {"<i8", torch::kLong},  {"<i4", torch::kInt},    {"<i2", torch::kShort},
      {"|i1", torch::kChar},  {"|u1", torch::kByte},   {"|b1", torch::kBool}};
  for (const auto& [name, type] : kTypes)
    if (name == numpy) return type;
  return torch::kByte;
}

// The array's mapped memory as a tensor, which copies nothing.
torch::Tensor tensor_of(const Arrays::Array& a) {
  return torch::from_blob(const_cast<std::byte*>(a.data), a.header.shape,
                          torch::TensorOptions().dtype(type_of(a.header.type)));
}

// The cause in one line: the first one of libtorch's own errors, the last one of its interpreter's,
// which quotes the module's lines before it. Without the stack in C++.
std::string cause_of(const std::exception& e) {
  std::string text = e.what();
  text.resize(std::min(text.find("Exception raised from "), text.size()));
  text.resize(text.find_last_not_of(" \r\n") + 1);
  if (text.find("Traceback of TorchScript") == text.npos) return text.substr(0, text.find('\n'));
  return text.substr(text.rfind('\n') + 1);
}

bool all_finite(const torch::Tensor& t) {
  return t.isfinite().all().item<bool>();
}

// Returns the largest of the absolute values; NaN if one is.
double largest(const torch::Tensor& t) {
  const auto [least, most] = torch::aminmax(t);
  return std::max(std::abs(least.item<double>()), std::abs(most.item<double>()));
}

}  // namespace

struct Module::Torch {
  struct Parameter {
    std::string name;
    torch::Tensor values;
    torch::Tensor gradient;  // a view of its bucket's
  };
  struct Bucket {
    torch::Tensor values, gradients, momentum;  // flat
    std::vector<Parameter> of;
    size_t waiting = 0;
  };

  std::string path;
  torch::jit::Module module;
  std::vector<Bucket> buckets;
  std::vector<torch::Tensor> buffers, arrays;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators;  // the hooks' owners
  std::string description;
  int64_t parameter_bytes = 0;

  // Of the pass under way.
  const Ready* ready = nullptr;
  double loss = 0;
  size_t next = 0;  // the first bucket that is not ready

  void fill_buckets();
  void lay_out(Bucket& b, bool last);
  void hook(size_t bucket, const torch::Tensor& parameter);
  void completed(size_t bucket);
  Result<void> check_step(const Bucket& b, double rate, double kept) const;
};

void Module::Torch::lay_out(Bucket& b, bool last) {
  int64_t numbers = 0;
  for (const Parameter& p : b.of) numbers += p.values.numel();
  b.values = torch::empty({numbers});
  b.momentum = torch::zeros({numbers});
  b.gradients = torch::zeros({numbers + static_cast<int64_t>(last ? kSlots : 0)});
  int64_t at = 0;
  for (auto& [name, p, view] : b.of) {
    torch::Tensor values = b.values.narrow(0, at, p.numel()).view(p.sizes());
    values.copy_(p.data());
    p.set_data(values);
    view = b.gradients.narrow(0, at, p.numel()).view(p.sizes());
    at += p.numel();
  }
}

void Module::Torch::fill_buckets() {
  std::vector<Parameter> parameters;
  uLong shapes = crc32(0, nullptr, 0);
  for (const auto& p : module.named_parameters()) {
    if (!p.value.requires_grad()) {
      buffers.push_back(p.value);
      continue;
    }
    parameters.push_back({p.name, p.value, {}});
    parameter_bytes += p.value.numel() * static_cast<int64_t>(sizeof(float));
    const std::string text = p.name + c10::str(p.value.sizes());
    shapes =
        crc32(shapes, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()));
  }
  for (const auto& b : module.buffers()) buffers.push_back(b);
  char sum[16];
  std::snprintf(sum, sizeof sum, "%08lx", shapes);
  description = std::to_string(parameters.size()) + " parameters of " +
                std::to_string(parameter_bytes) + " bytes, " + sum;

  int64_t numbers = 0;
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    if (buckets.empty() || (numbers > 0 && numbers + p->values.numel() > kBucketNumbers)) {
      buckets.emplace_back();
      numbers = 0;
    }
    numbers += p->values.numel();
    buckets.back().of.push_back(std::move(*p));
  }
  for (size_t i = 0; i < buckets.size(); ++i) {
    lay_out(buckets[i], i + 1 == buckets.size());
    for (const Parameter& p : buckets[i].of) hook(i, p.values);
  }
}

void Module::Torch::hook(size_t bucket, const torch::Tensor& parameter) {
  std::shared_ptr<torch::autograd::Node> accumulator =
      torch::autograd::impl::grad_accumulator(parameter);
  using Variables = std::vector<torch::autograd::Variable>;
  accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [this, bucket](const Variables& outputs, const Variables&) {
        if (--buckets[bucket].waiting == 0) completed(bucket);
        return outputs;
      }));
  accumulators.push_back(std::move(accumulator));
}

// Hands over the bucket, and those behind it that were complete before it: all ranks sum them in
// one order.
void Module::Torch::completed(size_t bucket) {
  if (bucket != next) return;
  while (next < buckets.size() && buckets[next].waiting == 0) (*ready)(next++, loss);
}

// Each new number is below a bound of the bucket's largest ones, else a look at each decides.
Result<void> Module::Torch::check_step(const Bucket& b, double rate, double kept) const {
  const torch::Tensor gradients = b.gradients.narrow(0, 0, b.values.numel());
  if (b.values.numel() == 0 ||
      largest(b.values) + rate * (kept * largest(b.momentum) + largest(gradients)) < kMostFloat)
    return {};
  int64_t at = 0;
  for (const Parameter& p : b.of) {
    const auto its = [&](const torch::Tensor& t) { return t.narrow(0, at, p.values.numel()); };
    if (!all_finite(its(gradients)))
      return Error{ErrorKind::kInvalid, "the gradient of " + p.name + " is not finite"};
    if (!all_finite(its(b.values) - (its(b.momentum) * kept + its(gradients)) * rate))
      return Error{ErrorKind::kInvalid, p.name + " would not be finite"};
    at += p.values.numel();
  }
  return {};
}

Module::Module(std::unique_ptr<Torch> torch) : torch_(std::move(torch)) {}
Module::~Module() = default;

Result<std::unique_ptr<Module>> Module::load(const std::string& path, const Arrays& data) {
  const auto invalid = [&](const std::string& why) {
    return Error{ErrorKind::kInvalid, path + ": " + why};
  };
  auto t = std::make_unique<Torch>();
  try {
    t->path = path;
    t->module = torch::jit::load(path);
  } catch (const std::exception& e) {
    return invalid("is no TorchScript module: " + cause_of(e));
  }
  const auto loss = t->module.find_method("loss");
  if (!loss)
    return invalid(
        "has no method `loss`; a module to train has loss(…) beside forward(…), marked "
        "@torch.jit.export");
  const size_t arguments = loss->function().getSchema().arguments().size() - 1;  // without self
  if (arguments != data.arrays().size())
    return invalid("its loss takes " + std::to_string(arguments) + " arguments; the data set has " +
                   std::to_string(data.arrays().size()) + " arrays");
  for (const auto& p : t->module.named_parameters())
    if (p.value.requires_grad() && p.value.scalar_type() != torch::kFloat)
      return invalid("its parameter " + p.name + " is no 32-bit float");
  try {
    t->module.train();
    t->fill_buckets();
  } catch (const std::exception& e) {
    return invalid("cannot be trained: " + cause_of(e));
  }
  if (t->buckets.empty()) return invalid("has no parameter to train");
  for (const Arrays::Array& a : data.arrays()) t->arrays.push_back(tensor_of(a));
  return std::unique_ptr<Module>(new Module(std::move(t)));
}

const std::string& Module::description() const {
  return torch_->description;
}
int64_t Module::parameter_bytes() const {
  return torch_->parameter_bytes;
}
size_t Module::buckets() const {
  return torch_->buckets.size();
}
std::span<float> Module::gradients(size_t bucket) {
  torch::Tensor& g = torch_->buckets[bucket].gradients;
  return {g.data_ptr<float>(), static_cast<size_t>(g.numel())};
}
std::span<float> Module::slots() {
  return gradients(buckets() - 1).last(kSlots);
}
double Module::square_of_gradients(size_t bucket) const {
  const Torch::Bucket& b = torch_->buckets[bucket];
  const torch::Tensor g = b.gradients.narrow(0, 0, b.values.numel());
  return g.dot(g).item<double>();
}

Result<void> Module::backward(std::span<const uint32_t> samples, double weight,
                              const Ready& ready) {
  Torch& t = *torch_;
  for (Torch::Bucket& b : t.buckets) {
    b.gradients.zero_();
    b.waiting = b.of.size();
    for (auto& [name, p, view] : b.of) p.mutable_grad() = view;
  }
  t.ready = &ready;
  t.next = 0;
  t.loss = 0;
  try {
    if (!samples.empty()) {
      const torch::Tensor index =
          torch::tensor(std::vector<int64_t>(samples.begin(), samples.end()));
      std::vector<torch::jit::IValue> arguments;
      for (const torch::Tensor& a : t.arrays) arguments.emplace_back(a.index_select(0, index));
      const torch::Tensor loss = t.module.get_method("loss")(std::move(arguments)).toTensor();
      t.loss = loss.item<double>();  // of more than one number: an error
      (loss * weight).backward();
    }
  } catch (const std::exception& e) {
    return Error{ErrorKind::kInvalid, "loss: " + cause_of(e)};
  }
  // Parameters that this pass did not reach keep a gradient of zero.
  while (t.next < t.buckets.size()) ready(t.next++, t.loss);
  return {};
}

Result<void> Module::step(double rate, double momentum) {
  const torch::NoGradGuard no_gradients;
  Torch& t = *torch_;
  for (const Torch::Bucket& b : t.buckets) SLUICE_TRY(t.check_step(b, rate, momentum));
  for (Torch::Bucket& b : t.buckets) {
    b.momentum.mul_(momentum).add_(b.gradients.narrow(0, 0, b.values.numel()));
    b.values.sub_(b.momentum, rate);
  }
  return {};
}

Result<void> Module::check_numbers() const {
  const torch::NoGradGuard no_gradients;
  const auto check = [](const std::string& name, const torch::Tensor& t) -> Result<void> {
    if (!t.is_floating_point() || !t.isnan().any().item<bool>()) return {};
    return Error{ErrorKind::kInvalid, name + " holds a number that is none (NaN)"};
  };
  for (const auto& p : torch_->module.named_parameters()) SLUICE_TRY(check(p.name, p.value));
  for (const auto& b : torch_->module.named_buffers()) SLUICE_TRY(check(b.name, b.value));
  return {};
}

void Module::seed(uint64_t seed) {
  torch::manual_seed(seed);
}

std::vector<StatePiece> Module::state() {
  std::vector<StatePiece> pieces;
  const auto add = [&](torch::Tensor& t) {
    pieces.push_back({static_cast<char*>(t.data_ptr()), static_cast<size_t>(t.nbytes())});
  };
  for (Torch::Bucket& b : torch_->buckets) add(b.values), add(b.momentum);
  for (torch::Tensor& b : torch_->buffers)
    if (b.is_contiguous() && b.numel() > 0) add(b);
  return pieces;
}

namespace {

constexpr std::pair<torch::ScalarType, const char*> kDatatypes[] = {
    {torch::kFloat, "FP32"}, {torch::kDouble, "FP64"}, {torch::kHalf, "FP16"},
    {torch::kLong, "INT64"}, {torch::kInt, "INT32"},   {torch::kShort, "INT16"},
    {torch::kChar, "INT8"},  {torch::kByte, "UINT8"},  {torch::kBool, "BOOL"}};

// {"name": "images", "datatype": "FP32", "shape": [-1,1,16,16]}: the first dimension is the batch.
std::string described(const std::string& name, const torch::Tensor& t) {
  std::string type = "FP32", shape = "-1";
  for (const auto& [scalar, word] : kDatatypes)
    if (scalar == t.scalar_type()) type = word;
  for (int64_t d = 1; d < t.dim(); ++d) shape += "," + std::to_string(t.size(d));
  return R"({"name":")" + name + R"(","datatype":")" + type + R"(","shape":[)" + shape + "]}";
}

}  // namespace

Result<std::string> Module::signature(const Arrays& data) {
  Torch& t = *torch_;
  try {
    const torch::NoGradGuard no_gradients;
    const auto arguments = t.module.get_method("forward").function().getSchema().arguments();
    std::vector<torch::jit::IValue> values;
    std::string inputs;
    for (size_t i = 1; i < arguments.size() && i <= t.arrays.size(); ++i) {
      const torch::Tensor one = t.arrays[i - 1].narrow(0, 0, 1);
      values.emplace_back(one);
      inputs += (inputs.empty() ? "" : ",") + described(arguments[i].name(), one);
    }
    t.module.eval();
    const torch::Tensor output = t.module.forward(std::move(values)).toTensor();
    t.module.train();
    return R"({"platform":"pytorch_torchscript","inputs":[)" + inputs + R"(],"outputs":[)" +
           described("output", output) + "]}\n";
  } catch (const std::exception& e) {
    t.module.train();
    return Error{ErrorKind::kInvalid,
                 "forward of " + data.arrays().front().name + ": " + cause_of(e)};
  }
}

Result<void> Module::save(const std::string& path) {
  const std::string aside = path + "." + std::to_string(getpid());
  try {
    // Into a module of its own: libtorch takes parameters that share a bucket for one tensor.
    torch::jit::Module copy = torch::jit::load(torch_->path);
    const torch::NoGradGuard no_gradients;
    std::map<std::string, torch::Tensor> trained;
    for (const auto& p : torch_->module.named_parameters()) trained[p.name] = p.value;
    for (const auto& b : torch_->module.named_buffers()) trained[b.name] = b.value;
    for (const auto& p : copy.named_parameters()) p.value.copy_(trained.at(p.name));
    for (const auto& b : copy.named_buffers()) b.value.copy_(trained.at(b.name));
    copy.eval();
    copy.save(aside);
  } catch (const std::exception& e) {
    const bool full = disk_is_full(path.substr(0, path.rfind('/')));  // libtorch does not say so
    std::remove(aside.c_str());
    if (full) return system_error(path, ENOSPC);
    return Error{ErrorKind::kInternal, path + ": " + cause_of(e)};
  }
  if (std::rename(aside.c_str(), path.c_str()) != 0)
    return Error{ErrorKind::kInternal, path + ": cannot be renamed to"};
  return {};
}

}  // namespace sluice::train
