#include "runtime/engine_builtin.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/clock.h"
#include "runtime/batch.h"
#include "wire/http/http.h"
#include "wire/json/json.h"

namespace sluice::runtime {
namespace {

// Elements stay where they are; `combine` is applied to each pair.
template <class T, class Combine>
std::string combined(const std::string& a, const std::string& b, Combine combine) {
  std::string out(a.size(), '\0');
  const T* x = reinterpret_cast<const T*>(a.data());
  const T* y = reinterpret_cast<const T*>(b.data());
  T* z = reinterpret_cast<T*>(out.data());
  for (size_t i = 0; i < a.size() / sizeof(T); ++i) z[i] = combine(x[i], y[i]);
  return out;
}

class AddSub : public Model {
 public:
  explicit AddSub(const ModelSpec& spec) : spec_(spec) {}

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, Gate* gate) override {
    if (gate != nullptr) gate->pass();
    const Tensor &a = inputs[0], &b = inputs[1];
    if (a.shape != b.shape)
      return Error{ErrorKind::kInvalid, "add_sub: the inputs' shapes " + to_string(a.shape) +
                                            " and " + to_string(b.shape) + " differ"};
    if (a.datatype == Datatype::kFp32) return outputs<float>(a, b);
    // Unsigned: overflow wraps around.
    return outputs<uint32_t>(a, b);
  }
  void set_threads(int) override {}

 private:
  template <class T>
  std::vector<Tensor> outputs(const Tensor& a, const Tensor& b) const {
    return {
        {spec_.outputs[0].name, a.datatype, a.shape, combined<T>(a.data, b.data, std::plus())},
        {spec_.outputs[1].name, a.datatype, a.shape, combined<T>(a.data, b.data, std::minus())}};
  }

  const ModelSpec spec_;
};

class Identity : public Model {
 public:
  Identity(const ModelSpec& spec, Nanos spin) : spec_(spec), spin_(spin) {}

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, Gate* gate) override {
    const int64_t inferences = batchable(spec_) ? inputs[0].shape[0] : 1;
    for (Nanos left = spin_ * inferences; left > Nanos(0); left -= kUnit) {
      if (gate != nullptr) gate->pass();
      burn(std::min(left, kUnit));
    }
    if (spin_ == Nanos(0) && gate != nullptr) gate->pass();
    std::vector<Tensor> outputs(inputs.begin(), inputs.end());
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].name = spec_.outputs[i].name;
    return outputs;
  }
  void set_threads(int) override {}

 private:
  static constexpr Nanos kUnit = Micros(20);

  // CPU time of this thread, not wall time: as an operator's work would be.
  static void burn(Nanos busy) {
    const auto used = [] {
      timespec t{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
      return Seconds(t.tv_sec) + Nanos(t.tv_nsec);
    };
    const Nanos end = used() + busy;
    while (used() < end) {
    }
  }

  const ModelSpec spec_;
  const Nanos spin_;
};

Result<void> fits_add_sub(const ModelSpec& spec) {
  const auto all = {&spec.inputs, &spec.outputs};
  for (const auto* tensors : all) {
    if (tensors->size() != 2)
      return Error{ErrorKind::kInvalid, "add_sub has two inputs and two outputs"};
    for (const TensorSpec& t : *tensors)
      if (t.datatype != spec.inputs[0].datatype || (t.datatype != "INT32" && t.datatype != "FP32"))
        return Error{ErrorKind::kInvalid, "add_sub: all are INT32 or all FP32"};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> load_builtin(const ModelFile& file) {
  const ModelSpec& spec = file.spec;
  const auto json = wire::parse_json(file.opened->read(0, file.opened->size()));
  if (!json.ok()) return within(spec.path, json.error());
  wire::Fields fields(*json, "model");
  const std::string name = fields.text("builtin");
  const Nanos spin = Micros(fields.integer("spin_us", 0, 0, 60'000'000));
  const bool same_count = spec.inputs.size() == spec.outputs.size();
  if (name == "add_sub") {
    if (const auto fit = fits_add_sub(spec); !fit.ok()) return within(spec.path, fit.error());
    return fields.finish<std::unique_ptr<Model>>(std::make_unique<AddSub>(spec));
  }
  if ((name == "identity" || name == "spin") && same_count)
    return fields.finish<std::unique_ptr<Model>>(std::make_unique<Identity>(spec, spin));
  return Error{ErrorKind::kInvalid,
               spec.path + ": builtin: '" + name +
                   "' is none of add_sub, identity and spin (which have an output per input)"};
}

}  // namespace sluice::runtime
