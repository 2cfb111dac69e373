// **gate**: the gate's cost for a model at full quota, under a daemon's arbiter: the same batch
// with and without, alternately. ResNet-50 and MobileNetV2 in their optimised form, and a chain of
// 50,000 operators that do next to nothing.
//
//   bench_gate [--models DIR] [--runs N] [--json FILE]
#include <unistd.h>

#include <string>

#include "base/random.h"
#include "bench/demo_models.h"
#include "bench/report.h"
#include "enforce/arbiter_host.h"
#include "enforce/meter_cpu.h"
#include "runtime/engine.h"
#include "runtime/environment.h"

namespace sluice::bench {
namespace {

using runtime::Gate;
using runtime::Tensor;

// A device of one core whose only client holds all of it, and is this process.
class FullQuota {
 public:
  FullQuota() : host_(clock_, {}) {
    const policy::ArbiterConfig config;
    device_ = host_.add_device(*policy::make_arbiter("planned", config), config, 1000);
    const auto admitted =
        host_.admit(device_, {.id = 1, .sm = kWhole, .quota = {kWhole, kWhole}, .position = {}},
                    std::make_unique<node::CpuMeter>(std::make_unique<node::ProcessCounter>(), 1000,
                                                     clock_.now()));
    SLUICE_CHECK(admitted.ok(), "admit");
  }

  void attach(Gate& gate) {
    const node::ProcessIdentity self = *node::identity_of(getpid());
    auto a = std::move(*host_.attach({device_, 1}, self, std::move(*node::open_process(self))));
    Fd pages[] = {std::move(a.pages.permit), std::move(a.pages.usage), std::move(a.bell)};
    SLUICE_CHECK(gate.adopt(pages).ok(), "pages");
  }
  Nanos used() { return host_.state({device_, 1})->used; }

 private:
  SteadyClock clock_;
  node::ArbiterHost host_;
  node::DeviceNumber device_ = 0;
};

std::vector<Tensor> random_inputs(const ModelSpec& spec) {
  Random random(7);
  std::vector<Tensor> inputs;
  for (const TensorSpec& s : spec.inputs) {
    Tensor t{.name = s.name, .datatype = *runtime::datatype_from(s.datatype), .shape = s.shape};
    t.shape[0] = 1;
    for (int64_t i = 0; i < *runtime::element_count(t.shape); ++i) {
      const float value = static_cast<float>(random.normal());
      t.data.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    inputs.push_back(std::move(t));
  }
  return inputs;
}

struct Pairs {
  std::vector<double> with, without, ratio;  // milliseconds
  bool same = true;
};

Pairs measure(runtime::Model& model, const std::vector<Tensor>& inputs, Gate& gate, int runs) {
  const SteadyClock clock;
  std::vector<Tensor> answer[2];
  const auto timed = [&](bool gated) {
    const Time begin = clock.now();
    answer[gated] = std::move(*model.run(inputs, gated ? &gate : nullptr));
    return millis(clock.now() - begin);
  };
  Pairs pairs;
  timed(true);
  timed(false);
  for (int i = 0; i < runs; ++i) {
    // The order alternates too: what one leaves in the caches helps both alike.
    const bool first = i % 2 == 0;
    const double a = timed(first), b = timed(!first);
    pairs.with.push_back(first ? a : b);
    pairs.without.push_back(first ? b : a);
    pairs.ratio.push_back(pairs.with.back() / pairs.without.back());
    pairs.same = pairs.same && answer[0] == answer[1];
  }
  gate.rest();
  return pairs;
}

void bench(Report& report, const std::string& directory, const std::string& name, int runs,
           int operators) {
  const auto file = runtime::read_model_file(directory + "/" + name + ".pt");
  if (!file.ok()) return report.fail(file.error().message);
  auto model = runtime::load_model(*file);
  if (!model.ok()) return report.fail(model.error().message);
  (*model)->set_threads(1);
  FullQuota device;
  Gate gate;
  device.attach(gate);
  const Pairs pairs = measure(**model, random_inputs(file->spec), gate, runs);
  if (!pairs.same) report.fail(name + ": other answers with the gate than without");
  if (device.used() == Nanos(0))
    report.fail(name + ": the gate did not attach: nothing was charged");

  const Samples with = summarise(pairs.with), without = summarise(pairs.without),
                ratio = summarise(pairs.ratio);
  if (operators > 0) {
    const auto per_operator = [&](double ms) { return ms * 1e6 / operators; };
    Samples spread = with;
    spread.spread = per_operator(with.spread);
    report.add(Row(name + ": an operator", per_operator(with.p50), "ns")
                   .beside("without gate", per_operator(without.p50))
                   .of(spread));
  } else {
    report.add(
        Row(name + ": batch of 1", with.p50, "ms").beside("without gate", without.p50).of(with));
    report.add(
        Row(name + ": with ÷ without, median of pairs", ratio.p50, "x").of(ratio).at_most(1.01));
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  sluice::runtime::complete_environment(argv);
  Report report("gate", argc, argv);
  const std::string models = models_directory(argc, argv);
  const int runs = int_argument(argc, argv, "--runs", 60);
  bench(report, models, "resnet50", runs, 0);
  bench(report, models, "mobilenet_v2", runs * 5, 0);
  bench(report, models, "chain", runs, 50'000);
  return report.finish();
}
