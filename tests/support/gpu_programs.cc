#include "tests/support/gpu_programs.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/check.h"
#include "tests/emulator/launch_trace.h"

namespace sluice::emulator {
namespace {

constexpr std::uint32_t kSms = 132;
constexpr std::uint32_t kResident = 2;  // blocks of an SM at once, where there are enough
constexpr Nanos kCopy = Nanos(1'500);

// It takes `took` on the SMs that its blocks fill, in waves of `wave` each.
Kernel kernel_of(Nanos took, std::uint32_t sms, std::uint32_t waves) {
  waves = std::max(waves, 1U);
  return {.blocks = sms * waves, .most_sms = sms, .wave_ns = took.count() / waves};
}

Kernel kernel_of(const TraceKernel& recorded) {
  Kernel kernel = kernel_of(Nanos(recorded.ns), std::min(recorded.blocks, kSms),
                            (recorded.blocks + kResident * kSms - 1) / (kResident * kSms));
  kernel.function = static_cast<std::uint32_t>(std::hash<std::string>()(recorded.name));
  return kernel;
}

Nanos length(const Kernel& kernel, std::uint32_t sms = kSms) {
  const std::uint32_t on = std::min({kernel.most_sms, kernel.blocks, sms});
  return Nanos(kernel.wave_ns * ((kernel.blocks + on - 1) / on));
}

HostLaunch launch_of(Nanos gap, std::vector<Kernel> kernels) {
  HostLaunch launch{.gap = gap + kCall, .kernels = std::move(kernels)};
  for (const Kernel& kernel : launch.kernels) launch.cost += length(kernel);
  return launch;
}

std::vector<HostRun> runs_of(const LaunchTrace& trace, Nanos python) {
  std::vector<HostRun> runs;
  HostRun run;
  for (const TraceStep& step : trace.steps) {
    const Nanos gap(step.gap_ns);
    std::vector<Kernel> kernels;
    switch (step.kind) {
      case TraceStep::Kind::kSync:
        if (!run.empty()) runs.push_back(std::move(run));
        run = {};
        continue;
      case TraceStep::Kind::kKernel:
        kernels = {kernel_of(trace.kernels[step.what])};
        break;
      case TraceStep::Kind::kGraph:
        for (const std::uint32_t k : trace.graphs[step.what])
          kernels.push_back(kernel_of(trace.kernels[k]));
        break;
      default:
        kernels = {kernel_of(kCopy, 2, 1)};
    }
    run.push_back(launch_of(gap + (run.empty() ? python : Nanos(0)), std::move(kernels)));
  }
  if (runs.size() > 2) runs.erase(runs.begin());
  return runs;
}

}  // namespace

void set_costs(GpuProgram& program, std::uint32_t sms) {
  for (HostRun& run : program.runs) {
    for (HostLaunch& launch : run) {
      launch.cost = Nanos(0);
      for (const Kernel& kernel : launch.kernels) launch.cost += length(kernel, sms);
    }
  }
}

std::vector<HostRun> recorded(const std::string& set, const std::string& program, Nanos python,
                              double longer) {
  std::ifstream file(std::string(SLUICE_LAUNCHES) + "/" + set + "/" + program);
  std::stringstream text;
  text << file.rdbuf();
  LaunchTrace trace;
  std::string why;
  SLUICE_CHECK(read_trace(text.str(), trace, why), program + ": " + why);
  for (TraceKernel& kernel : trace.kernels)
    kernel.ns = static_cast<std::uint64_t>(std::llround(static_cast<double>(kernel.ns) * longer));
  return runs_of(trace, python);
}

HostRun synthetic_training_step(const HostRun& forward) {
  HostRun step;
  for (int pass = 0; pass < 3; ++pass) {
    for (const HostLaunch& launch : forward) {
      std::vector<Kernel> kernels;
      for (const Kernel& kernel : launch.kernels) {
        const Nanos alone = length(kernel);
        const double longer = alone > Micros(10) ? 4.3 : 3;
        const Nanos took = from_seconds(seconds(alone) * longer);
        const Nanos wave = took > Micros(40) ? Micros(26) : Micros(8);
        kernels.push_back(kernel_of(took, std::min(kernel.most_sms * 16, kSms),
                                    static_cast<std::uint32_t>((took + wave / 2) / wave)));
      }
      step.push_back(launch_of(Micros(15) - kCall, std::move(kernels)));
    }
  }
  for (int i = 0; i < 60; ++i)
    step.push_back(launch_of(Micros(15) - kCall, {kernel_of(Micros(10), kSms, 1)}));
  return step;
}

GpuProgram greedy_program(Nanos kernel, Nanos launch) {
  const auto waves = static_cast<std::uint32_t>((kernel + Micros(29)) / Micros(30));
  return {.runs = {{launch_of(launch - kCall, {kernel_of(kernel, kSms, waves)})}}, .endless = true};
}

GpuProgram loop_program(std::vector<HostRun> runs) {
  return {.runs = std::move(runs)};
}

GpuProgram serving_program(std::vector<HostRun> runs, double load) {
  double sum = 0;
  for (const HostRun& run : runs) {
    Nanos host = Micros(45), cost{0};
    for (const HostLaunch& launch : run) {
      host += launch.gap;
      cost += launch.cost;
    }
    // A graph runs when its one launch is over; eager kernels run while the next are launched.
    sum += seconds(run.size() < 8 ? host + cost : host);
  }
  GpuProgram program = loop_program(std::move(runs));
  program.requests_per_second = load * static_cast<double>(program.runs.size()) / sum;
  return program;
}

}  // namespace sluice::emulator
