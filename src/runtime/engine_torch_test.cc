// Answers of the torch engine, by executor, interpreter, batches, threads and forks, against a
// plain run of the same file by torch itself. Also checks that every operator passes the gate.
#include "runtime/engine_torch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <torch/script.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/random.h"
#include "runtime/batch.h"
#include "runtime/sample.h"

namespace sluice::runtime {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Tensors = std::vector<Tensor>;

std::string model_path(const std::string& name) {
  return SLUICE_MODELS "/" + name + ".pt";
}

ModelFile file_of(const std::string& name) {
  auto file = read_model_file(model_path(name));
  SLUICE_CHECK(file.ok(), file.ok() ? "" : file.error().message);
  return std::move(*file);
}

std::unique_ptr<Model> load(const ModelFile& file) {
  auto model = load_model(file);
  SLUICE_CHECK(model.ok(), model.ok() ? "" : model.error().message);
  return std::move(*model);
}

// `batch` rows; 24 for every other variable dimension. Tokens are below 1000, masks 1.
Tensors random_inputs(const ModelSpec& spec, int batch, uint64_t seed) {
  Random random(seed);
  Tensors inputs;
  for (const TensorSpec& s : spec.inputs) {
    Tensor t{s.name, *datatype_from(s.datatype), s.shape, ""};
    for (size_t i = 0; i < t.shape.size(); ++i)
      if (t.shape[i] < 0) t.shape[i] = i == 0 ? batch : 24;
    const auto append = [&t](auto value) {
      t.data.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    for (int64_t i = 0; i < *element_count(t.shape); ++i) {
      if (t.datatype == Datatype::kFp32) append(static_cast<float>(random.normal()));
      if (t.datatype == Datatype::kInt32) append(static_cast<int32_t>(random.between(-999, 999)));
      if (t.datatype == Datatype::kInt64)
        append(s.name == "attention_mask" ? int64_t{1} : random.between(0, 999));
    }
    inputs.push_back(std::move(t));
  }
  return inputs;
}

// Returns the results of torch's own interpreter, not optimised.
std::vector<at::Tensor> plain(const std::string& path, const Tensors& inputs) {
  const torch::NoGradGuard no_grad;
  torch::jit::Module module = torch::jit::load(path);
  module.eval();
  std::vector<c10::IValue> values;
  for (const Tensor& t : inputs) {
    const auto type = t.datatype == Datatype::kFp32    ? at::kFloat
                      : t.datatype == Datatype::kInt32 ? at::kInt
                                                       : at::kLong;
    values.emplace_back(at::from_blob(const_cast<char*>(t.data.data()), t.shape, type).clone());
  }
  const c10::IValue answer = module.forward(values);
  if (answer.isTensor()) return {answer.toTensor()};
  std::vector<at::Tensor> all;
  for (const c10::IValue& v : answer.toTupleRef().elements()) all.push_back(v.toTensor());
  return all;
}

void expect_close(const Tensors& got, const std::vector<at::Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const at::Tensor w = want[i].contiguous();
    ASSERT_EQ(got[i].shape, w.sizes().vec());
    const at::Tensor g =
        at::from_blob(const_cast<char*>(got[i].data.data()), got[i].shape, w.scalar_type());
    const double scale = std::max(1e-6, w.abs().max().item<double>());
    EXPECT_LE((g - w).abs().max().item<double>() / scale, 1e-4) << got[i].name;
  }
}

const auto kModels = testing::Values("simple", "mlp", "mobilenet_v2", "resnet50", "resnet50_int8",
                                     "bert_base", "gpt2");

class TorchAnswers : public testing::TestWithParam<const char*> {
 protected:
  const ModelFile file_ = file_of(GetParam());
  const std::unique_ptr<Model> model_ = load(file_);

  Tensors run(const Tensors& inputs) {
    auto outputs = model_->run(inputs, nullptr);
    EXPECT_TRUE(outputs.ok()) << outputs.error().message;
    return outputs.ok() ? std::move(*outputs) : Tensors();
  }
};
INSTANTIATE_TEST_SUITE_P(, TorchAnswers, kModels);

TEST_P(TorchAnswers, AreThoseOfAPlainRun) {
  for (const int batch : {1, 3}) {
    const Tensors inputs = random_inputs(file_.spec, batch, 1);
    expect_close(run(inputs), plain(model_path(GetParam()), inputs));
  }
}

TEST_P(TorchAnswers, StayTheSameInABatchWithOthersAndAcrossResizing) {
  const Tensors first = random_inputs(file_.spec, 1, 2), second = random_inputs(file_.spec, 2, 3);
  const std::vector<const Tensors*> parts{&first, &second};
  const std::vector<int> rows{1, 2};
  model_->set_threads(2);
  const auto cut = split(run(join(parts)), rows);
  model_->set_threads(1);
  ASSERT_TRUE(cut.ok()) << cut.error().message;
  expect_close((*cut)[0], plain(model_path(GetParam()), first));
  expect_close((*cut)[1], plain(model_path(GetParam()), second));
}

// Its layers take an activation's range from the whole batch.
TEST(TorchAnswersInt8, OfDynamicLayersAreThoseOfAPlainRun) {
  const ModelFile file = file_of("bert_base_int8");
  const Tensors inputs = random_inputs(file.spec, 1, 1);
  const auto outputs = load(file)->run(inputs, nullptr);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  expect_close(*outputs, plain(file.spec.path, inputs));
}

// In a process of its own (CMakeLists.txt): OpenMP's threads do not survive a fork, so there must
// not have been any, as in a template.
class TorchForks : public TorchAnswers {};
INSTANTIATE_TEST_SUITE_P(, TorchForks, kModels);

TEST_P(TorchForks, AnswerAsAPlainRun) {
  ASSERT_TRUE(warm_up(*model_, file_.spec, 1).ok());
  const Tensors inputs = random_inputs(file_.spec, 1, 4);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    model_->after_fork();
    model_->set_threads(2);
    const auto outputs = model_->run(inputs, nullptr);
    for (const Tensor& t : outputs.ok() ? *outputs : Tensors())
      if (::write(pipe[1], t.data.data(), t.data.size()) < 0) ::_exit(1);
    ::_exit(outputs.ok() ? 0 : 1);
  }
  ::close(pipe[1]);
  std::string got;
  char buffer[65536];
  for (ssize_t n; (n = ::read(pipe[0], buffer, sizeof buffer)) > 0;)
    got.append(buffer, static_cast<size_t>(n));
  ::close(pipe[0]);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  Tensors outputs = run(inputs);
  for (Tensor& t : outputs) {
    t.data = got.substr(0, t.data.size());
    got.erase(0, t.data.size());
  }
  expect_close(outputs, plain(model_path(GetParam()), inputs));
}

// A pair of pages with an endless grant, whose usage page counts what passed.
class OpenPages {
 public:
  OpenPages() {
    auto* permit = static_cast<sluice_permit_page*>(map(SLUICE_PERMIT_MAGIC, fds_[0]));
    usage_ = static_cast<sluice_usage_page*>(map(SLUICE_USAGE_MAGIC, fds_[1]));
    fds_[2] = Fd(::eventfd(0, EFD_CLOEXEC));
    const auto now = static_cast<uint64_t>(SteadyClock().now().time_since_epoch().count());
    permit->heartbeat_ns = now + 60'000'000'000;  // our clock seems late, the daemon alive
    permit->window_ns = 20'000'000;
    permit->request = permit->limit = 1000;
    sluice_permit_grant(permit, 3'600'000'000'000, now + 3'600'000'000'000, now);
  }
  void attach(Gate& gate) { ASSERT_TRUE(gate.adopt(fds_).ok()); }
  uint64_t units() const { return usage_->units; }

 private:
  static void* map(uint64_t magic, Fd& fd) {
    fd = Fd(::memfd_create("page", MFD_CLOEXEC));
    SLUICE_CHECK(::ftruncate(fd.get(), SLUICE_PAGE_SIZE) == 0, "ftruncate");
    void* page = ::mmap(nullptr, SLUICE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    *static_cast<sluice_page_header*>(page) = {magic, SLUICE_WIRE_VERSION, SLUICE_PAGE_SIZE, 1, 0};
    return page;
  }

  Fd fds_[3];
  sluice_usage_page* usage_;
};

uint64_t units_of_a_run(Model& model, const ModelSpec& spec) {
  OpenPages pages;
  Gate gate;
  pages.attach(gate);
  EXPECT_TRUE(model.run(random_inputs(spec, 1, 5), &gate).ok());
  gate.rest();
  return pages.units();
}

TEST(TorchGate, StandsBeforeEveryOperatorOfTheExecutor) {
  const ModelFile file = file_of("chain");
  const auto model = load(file);
  // Units since the last checkpoint are not reported yet: at most 64.
  EXPECT_GE(units_of_a_run(*model, file.spec), 50'000u - 64);
}

class ScriptTest : public testing::Test {
 protected:
  ScriptTest() : folder_(testing::TempDir() + "script" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~ScriptTest() override { std::filesystem::remove_all(folder_); }

  // A model x: FP32 [-1, 2] → y: FP32 [-1, 2].
  ModelFile script(const std::string& forward) {
    torch::jit::Module module("m");
    module.define(forward);
    module.save(folder_ + "/m.pt");
    return described();
  }
  ModelFile described(const std::string& output = "FP32") {
    std::ofstream(folder_ + "/m.json")
        << R"({"name":"m","platform":"pytorch_torchscript","inputs":[{"name":"x","datatype":"FP32",)"
        << R"("shape":[-1,2]}],"outputs":[{"name":"y","datatype":")" << output
        << R"(","shape":[-1,2]}]})";
    return std::move(*read_model_file(folder_ + "/m.pt"));
  }
  std::string load_error() {
    const auto model = load_model(described());
    return model.ok() ? "none" : model.error().message;
  }

  const std::string folder_;
};

constexpr char kLoop[] = R"(
def forward(self, x):
    if bool(x.sum() > 0):
        x = -x
    for i in range(500):
        x = x + 1
    return x
)";

TEST_F(ScriptTest, ControlFlowRunsInTheInterpreterGated) {
  const ModelFile file = script(kLoop);
  const auto model = load(file);
  const Tensors inputs = random_inputs(file.spec, 2, 6);
  const auto outputs = model->run(inputs, nullptr);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  expect_close(*outputs, plain(file.spec.path, inputs));
  EXPECT_GE(units_of_a_run(*model, file.spec), 500u - 64);
}

TEST_F(ScriptTest, ListsAndTuplesRunInTheExecutor) {
  const ModelFile file = script(R"(
def forward(self, x):
    a, b = torch.split(x, 1, 1)
    pair = (b, torch.cat([a, b], 1))
    return pair[1] + torch.reshape(pair[0], [-1, 1])
)");
  const Tensors inputs = random_inputs(file.spec, 3, 7);
  const auto outputs = load(file)->run(inputs, nullptr);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  expect_close(*outputs, plain(file.spec.path, inputs));
}

TEST_F(ScriptTest, WhatIsNoModelIsNamed) {
  std::ofstream(folder_ + "/m.pt") << "no model";
  EXPECT_THAT(load_error(), HasSubstr("m.pt: no TorchScript model, or cut short"));
  script(kLoop);
  std::filesystem::resize_file(folder_ + "/m.pt",
                               std::filesystem::file_size(folder_ + "/m.pt") / 2);
  EXPECT_THAT(load_error(), HasSubstr("m.pt: no TorchScript model, or cut short"));
  script("def forward(self, x, y):\n    return x + y\n");
  EXPECT_THAT(load_error(), HasSubstr("takes 2 inputs, its metadata says 1"));
}

// The interpreter's message begins with "The following operation failed …" and ends with the cause.
TEST_F(ScriptTest, AFailureNamesItsCauseAndLogsTheWholeTextOnce) {
  struct Case {
    const char *forward, *cause;
  };
  const Case cases[] = {
      // The executor's: no control flow.
      {"def forward(self, x):\n    return torch.mm(x, torch.ones([3, 2]))\n",
       "mat1 and mat2 shapes cannot be multiplied"},
      // The interpreter's.
      {R"(
def forward(self, x):
    for i in range(int(x.size(0))):
        x = torch.mm(x, torch.ones([3, 2]))
    return x
)",
       "RuntimeError: mat1 and mat2 shapes cannot be multiplied"},
      {R"(
def forward(self, x):
    assert bool(x.sum() != x.sum()), "no such thing"
    return x
)",
       "no such thing"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.cause);
    const ModelFile file = script(c.forward);
    const auto model = load(file);
    testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) {
      const auto outcome = model->run(random_inputs(file.spec, 1, 3), nullptr);
      ASSERT_FALSE(outcome.ok());
      EXPECT_THAT(outcome.error().message, HasSubstr(c.cause));
      EXPECT_THAT(outcome.error().message, Not(HasSubstr("\n")));
    }
    const std::string logged = testing::internal::GetCapturedStderr();
    const std::string told = "torch says";
    EXPECT_EQ(logged.find(told), logged.rfind(told)) << "the same text once: " << logged;
    const bool interpreted = !std::string_view(c.cause).starts_with("mat1");
    EXPECT_EQ(logged.find("Traceback of TorchScript") != logged.npos, interpreted) << logged;
  }
}

TEST_F(ScriptTest, AnAnswerThatIsNoTensorIsNamedWithWhatIsServed) {
  const std::string served = "; Sluice serves a tensor, or a tuple or list of tensors: wrap";
  const ModelFile dict = script("def forward(self, x):\n    return {'y': x}\n");
  const auto warm = warm_up(*load(dict), dict.spec, 1);
  ASSERT_FALSE(warm.ok());
  EXPECT_THAT(warm.error().message,
              StartsWith(dict.spec.path + ": the model returns Dict[str, Tensor]" + served));
  for (const std::vector<TensorSpec>& inputs : {std::vector<TensorSpec>(), dict.spec.inputs}) {
    ModelFile asked = dict;
    asked.spec.inputs = inputs;
    const auto inspected = inspect_torchscript(asked);
    ASSERT_FALSE(inspected.ok());
    EXPECT_THAT(inspected.error().message, HasSubstr("the model returns Dict[str, Tensor]"));
  }

  const ModelFile inner = script("def forward(self, x):\n    return (x, {'y': x})\n");
  EXPECT_THAT(warm_up(*load(inner), inner.spec, 1).error().message,
              HasSubstr("returns Dict[str, Tensor]" + served));
  const ModelFile number = script("def forward(self, x):\n    return x.dim()\n");
  EXPECT_THAT(inspect_torchscript(number).error().message,
              HasSubstr("the model returns int" + served));
}

TEST_F(ScriptTest, ArgumentsWithDefaultsMayBeLeftOut) {
  ModelFile file = script(R"(
def forward(self, x, bias: Optional[Tensor] = None, scale: float = 3.0):
    if bias is not None:
        x = x + bias
    return x * scale
)");
  auto found = inspect_torchscript(file);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ((*found)["inputs"], nlohmann::json({"x"}));
  EXPECT_EQ((*found)["optional"], nlohmann::json({"bias"}));
  const auto sum_of = [&](const Tensors& inputs) {
    const auto outputs = load(file)->run(inputs, nullptr);
    EXPECT_TRUE(outputs.ok()) << outputs.error().message;
    return outputs.ok() ? (*outputs)[0].data : "";
  };
  const std::string twos = sample_of(file.spec.inputs[0], {.value = 2})->data;
  const Tensor x{"x", Datatype::kFp32, {1, 2}, twos};
  EXPECT_EQ(sum_of({x}), sample_of(file.spec.inputs[0], {.value = 6})->data);
  file.spec.inputs.push_back(file.spec.inputs[0]);
  EXPECT_EQ(sum_of({x, x}), sample_of(file.spec.inputs[0], {.value = 12})->data);
  file.spec.inputs.push_back(file.spec.inputs[0]);
  EXPECT_THAT(load_model(file).error().message,
              HasSubstr("the model takes 1 to 2 inputs, its metadata says 3"));
}

// Two sizes that happen to give one size of output prove nothing: [1, 1] of a pool over 32 pixels.
TEST_F(ScriptTest, WhatDependsOnSizesOrValuesIsFoundVariable) {
  struct Case {
    const char* forward;
    Shape takes, returns;
  };
  const Case cases[] = {
      {"def forward(self, x):\n    return torch.avg_pool2d(x, [32, 32])\n",
       {-1, 3, -1, -1},
       {-1, 3, -1, -1}},
      {"def forward(self, x):\n    return x.mean([2, 3])\n", {-1, 3, -1, -1}, {-1, 3}},
      {"def forward(self, x):\n    return torch.nonzero(x)\n", {-1, 4}, {-1, 2}},
      {"def forward(self, x):\n    return x[x.sum(1) > 0]\n", {-1, 4}, {-1, 4}},
      // A least length, as of audio; and values that are checked.
      {"def forward(self, x):\n    return x.unfold(1, 400, 160)\n", {-1, -1}, {-1, -1, 400}},
      {"def forward(self, x):\n    assert bool(x.min() > 0)\n    return x\n", {-1, 5}, {-1, 5}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.forward);
    ModelFile file = script(c.forward);
    file.spec.inputs[0].shape = c.takes;
    const auto found = inspect_torchscript(file);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ((*found)["outputs"][0]["shape"], nlohmann::json(c.returns)) << *found;
  }
  ModelFile none = script("def forward(self, x):\n    assert x.dim() == 9, 'nine'\n    return x\n");
  const auto found = inspect_torchscript(none);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ((*found)["outputs"], 1);
  EXPECT_THAT((*found)["refused"].get<std::string>(), HasSubstr("nine"));
}

TEST_F(ScriptTest, ASampleThatIsRefusedIsAWarningUnlessEveryRequestWouldFail) {
  ModelFile picky =
      script("def forward(self, x):\n    assert bool(x.sum() > 0), 'sum'\n    return x\n");
  const auto refused = warm_up(*load(picky), picky.spec, 1);
  ASSERT_TRUE(refused.ok()) << refused.error().message;
  EXPECT_THAT(*refused, HasSubstr("sum"));
  picky.spec.inputs[0].sample = {0, 1};
  EXPECT_EQ(*warm_up(*load(picky), picky.spec, 1), "");

  const ModelFile half =
      script("def forward(self, x):\n    y = x.half()\n    return torch.mm(y, y.t())\n");
  EXPECT_THAT(warm_up(*load(half), half.spec, 1).error().message,
              HasSubstr("m.pt: it computes in half precision"));
}

TEST_F(ScriptTest, MetadataThatContradictsTheModelIsNamed) {
  script("def forward(self, x):\n    return x.to(dtype=7)\n");  // 7: double
  const auto model = load(described());
  EXPECT_THAT(model->run(random_inputs(described().spec, 1, 8), nullptr).error().message,
              HasSubstr("output 'y' is Double, its metadata says FP32"));
}

TEST(TorchErrors, AnIndexOutOfRangeIsTheCallersFaultAndHarmsNobody) {
  const ModelFile file = file_of("gpt2");
  const auto model = load(file);
  Tensors inputs = random_inputs(file.spec, 1, 9);
  Tensors wrong = inputs;
  const int64_t far = 1'000'000;
  std::memcpy(wrong[0].data.data(), &far, sizeof far);
  const auto outcome = model->run(wrong, nullptr);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::kInvalid) << outcome.error().message;
  EXPECT_TRUE(model->run(inputs, nullptr).ok());
}

}  // namespace
}  // namespace sluice::runtime
