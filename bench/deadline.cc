// deadline: how many requests of two functions are late, if the arbiter knows the due time of each
// one's oldest waiting request (`deadline`), and if it keeps to the plan alone (`planned`). A short
// request with a tight objective (4 ms, 10 ms; a fifth of the device) and a long one with a loose
// one (20 ms, 100 ms; three tenths), alone or beside training that has the other half and always
// has work. Arrivals are exponential, the same under both. On the virtual clock: nothing here is
// measured on a machine.
//
//   bench_deadline [--json FILE]
#include <algorithm>
#include <array>
#include <string>

#include "bench/report.h"
#include "tests/support/arbiter_simulation.h"

namespace sluice::bench {
namespace {

using policy::ClientId;

constexpr Nanos kSpan = Seconds(600);
constexpr Nanos kOperator = Micros(500);

struct Function {
  const char* name;
  Nanos work, objective;
  Share request, begin;
};
constexpr std::array<Function, 2> kFunctions = {{{"short", Millis(4), Millis(10), {200}, {0}},
                                                 {"long", Millis(20), Millis(100), {300}, {200}}}};
constexpr policy::ShareClient kTraining = {
    .id = 9, .sm = kWhole, .quota = {{500}, kWhole}, .position = {{0}, {500}}};

struct Late {
  double percent = 0;
  size_t requests = 0;
};

// Returns each function's result, at a load in ‰ of its request.
std::array<Late, 2> play(std::string_view arbiter, int load, bool beside_training) {
  policy::Simulation device(arbiter);
  bool fits = !beside_training || device.add(kTraining, policy::training(kOperator, 20)).ok();
  for (size_t i = 0; i < kFunctions.size(); ++i) {
    const Function& f = kFunctions[i];
    const policy::ShareClient client{.id = static_cast<ClientId>(i + 1),
                                     .sm = kWhole,
                                     .quota = {f.request, kWhole},
                                     .position = {{0}, f.begin},
                                     .has_slo = true};
    const int operators = static_cast<int>(f.work / kOperator);
    const Nanos every = f.work * 1000 / f.request.permille * 1000 / load;
    fits &= device.add(client, policy::serving(kOperator, operators, every, f.objective)).ok();
  }
  if (!fits) return {};
  device.run(kSpan);
  std::array<Late, 2> late;
  for (size_t i = 0; i < kFunctions.size(); ++i) {
    const auto& took = device.latencies(static_cast<ClientId>(i + 1));
    const auto missed = std::count_if(
        took.begin(), took.end(), [&](Nanos latency) { return latency > kFunctions[i].objective; });
    if (took.empty()) return {};
    late[i] = {100.0 * static_cast<double>(missed) / static_cast<double>(took.size()), took.size()};
  }
  return late;
}

void measure(Report& report, int load, bool beside_training) {
  const auto planned = play("planned", load, beside_training),
             deadline = play("deadline", load, beside_training);
  for (size_t i = 0; i < kFunctions.size(); ++i) {
    if (planned[i].requests == 0 || deadline[i].requests == 0) report.fail("nothing was served");
    Row row(std::string(kFunctions[i].name) + " at " + std::to_string(load / 10) +
                " % of its request" + (beside_training ? ", beside training" : ""),
            deadline[i].percent, "% late");
    row.beside("planned", planned[i].percent);
    row.n = static_cast<int>(deadline[i].requests);
    report.add(row);
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  sluice::bench::Report report("deadline", argc, argv);
  for (const bool beside_training : {false, true})
    for (const int load : {400, 600, 800}) sluice::bench::measure(report, load, beside_training);
  report.note("on the virtual clock, 600 s of load each");
  return report.finish();
}
