// decide: one whole tick of the control loop, from the observation to its actions and the gateway's
// routes, under has-gpu over a cluster in memory: 1,000 functions, 3,200 instances, 4,000 devices,
// 1,000 nodes. First at a steady load, then with the load of 5 % of the functions changing at each
// tick. A function that does not change is decided once a second.
//
// Times are of the thread's processor, without the time of the cluster in memory. The journal is in
// memory too, or a SQLite file. A run at half the size shows how the time grows: with
// functions^exponent. --bundles adds rows of every bundle.
//
//   bench_decide [--functions N] [--ticks N] [--sqlite] [--bundles] [--json FILE]
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "bench/report.h"
#include "control/desired_memory.h"
#include "control/journal_memory.h"
#include "control/local/store.h"
#include "control/requests.h"
#include "policy/bundle.h"
#include "predict/profile_table.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/folder.h"

namespace sluice::bench {
namespace {

using control::Control;
using control::Observation;

constexpr Nanos kTick = Millis(250);
constexpr int kWholeSize = 1000;            // functions, to which the goals apply
constexpr int kCopies[] = {1, 2, 3, 4, 6};  // instances of a function: 3.2 in the mean
constexpr int kDevicesOfNode = 4;           // and a node for each function
constexpr double kLoadOfInstance = 24;      // inferences per second, of 40 that it can do
constexpr double kChanging = 0.05;
constexpr int kCalm = 8;       // ticks without an action, until the load counts as steady
constexpr int kMostCalm = 80;  // ticks that this may take
constexpr const char* kModel = "/models/m.pt";

double cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

// Returns "node-0042", so that names sort like numbers.
std::string numbered(const char* what, int number) {
  char text[32];
  std::snprintf(text, sizeof text, "%s-%04d", what, number);
  return text;
}

FunctionName name_of(int function) {
  return {.name = numbered("function", function)};
}

int copies_of(int function) {
  return kCopies[static_cast<size_t>(function) % std::size(kCopies)];
}

// Runs `call` and adds its time.
template <class Call>
auto metered(double& sum_ms, const Call& call) {
  const double begin = cpu_ms();
  auto answer = call();
  sum_ms += cpu_ms() - begin;
  return answer;
}

// Forwards to a cluster in memory. Sums up its time, and the orders to it.
class MeteredCluster : public control::Cluster {
 public:
  explicit MeteredCluster(control::FakeCluster& cluster) : cluster_(cluster) {}

  Observation observe() override {
    return metered(own_ms, [&] { return cluster_.observe(); });
  }
  Result<void> start(const control::StartOrder& order) override {
    ++actions;
    return metered(own_ms, [&] { return cluster_.start(order); });
  }
  Result<void> resize(const InstanceId& id, const Parts& parts) override {
    ++actions;
    return metered(own_ms, [&] { return cluster_.resize(id, parts); });
  }
  Result<void> stop(const InstanceId& id, Nanos drain) override {
    ++actions;
    return metered(own_ms, [&] { return cluster_.stop(id, drain); });
  }
  Result<void> set_drained(const DeviceId& device, bool drained) override {
    return cluster_.set_drained(device, drained);
  }
  Result<std::set<InstanceId>> set_routes(const std::string& gateway,
                                          const RoutingTable& table) override {
    return metered(own_ms, [&] { return cluster_.set_routes(gateway, table); });
  }

  int64_t actions = 0;
  double own_ms = 0;

 private:
  control::FakeCluster& cluster_;
};

// Batching helps; half a device is enough for 4/5 of its speed.
control::Profile profile() {
  control::Profile p;
  p.model = kModel;
  for (const int batch : {1, 2, 4})
    for (const int sm : {250, 500, 1000})
      for (const int quota : {250, 500, 1000}) {
        const double s = sm / 1000.0, speed = s <= 0.5 ? s * 1.6 : 0.8 + (s - 0.5) * 0.4;
        const double takes = 0.020 * (0.5 + 0.5 * batch) / (speed * quota / 1000.0);
        p.points.push_back(
            {{batch, {sm}, {quota}}, from_seconds(takes), from_seconds(takes), batch / takes});
      }
  return p;
}

// The time of one tick, in total and by phase.
struct Tick {
  double ms = 0;
  std::map<std::string, double, std::less<>> phases;
};

// A platform whose functions have the instances that they need.
class Platform {
 public:
  Platform(int functions, bool sqlite, const std::string& bundle = "has-gpu")
      : functions_(functions) {
    place();
    control::Journal* journal = &memory_;
    if (sqlite) {
      auto store = control::Store::open(folder_.path + "/control.db");
      SLUICE_CHECK(store.ok(), store.error().message);
      store_ = std::make_unique<control::Store>(std::move(*store));
      journal = store_.get();
    }
    auto control = Control::open(
        {desired_, *journal, metered_, predictor_, clock_},
        {.bundle = bundle, .on_phase = [this](std::string_view phase) { ended(phase); }});
    SLUICE_CHECK(control.ok(), control.error().message);
    control_ = std::move(*control);
    std::vector<FunctionSpec> specs;
    for (int f = 0; f < functions; ++f) {
      FunctionSpec spec{.name = name_of(f)};
      spec.inference().model.path = kModel;
      spec.inference().slo.latency = Millis(250);
      spec.inference().batching.max_size = 4;
      if (bundle == "fixed") spec.slice = Slice{.sm = kWhole, .quota = {{500}, kWhole}};
      specs.push_back(std::move(spec));
    }
    SLUICE_CHECK(control_->set_profile(profile()).ok(), "the profile was refused");
    const auto applied = control::Requests(*control_).apply(specs, false, wall_);
    SLUICE_CHECK(applied.ok(), applied.error().message);
  }

  Tick tick() {
    clock_.advance(kTick);
    wall_ += kTick / Millis(1);
    tick_ = {};
    mark_ = cpu_ms() - metered_.own_ms;
    control_->step(wall_);
    decided_ += control_->last_tick().decided;
    return std::exchange(tick_, {});
  }

  // Runs until the policy finds nothing more to do; returns false if it always does. Without its
  // nodes the loop measures the load first.
  bool settle() {
    cluster_.node_there = false;
    for (int n = 0; n < kCalm; ++n) tick();
    cluster_.node_there = true;
    int calm = 0;
    for (int n = 0; n < kMostCalm && calm < kCalm; ++n) {
      const int64_t before = metered_.actions;
      tick();
      calm = metered_.actions == before ? calm + 1 : 0;
    }
    return calm == kCalm;
  }

  void change_loads() {
    for (int n = std::max(1, static_cast<int>(functions_ * kChanging)); n > 0; --n) {
      const int f = static_cast<int>(random_.below(static_cast<uint64_t>(functions_)));
      cluster_.load[name_of(f)] = 4.0 * static_cast<double>(random_.between(2, 12)) * copies_of(f);
    }
  }

  int64_t actions() const { return metered_.actions; }
  int64_t decided() const { return decided_; }  // functions, over all ticks
  size_t instances() const { return cluster_.seen.instances.size(); }
  size_t routed() const {
    size_t routed = 0;
    for (const auto& f : cluster_.routes["functions"]) routed += f["instances"].size();
    return routed;
  }
  int ready() const { return cluster_.count(1, InstanceState::kReady); }

 private:
  void place() {
    cluster_.start_takes = Seconds(2);
    cluster_.drain_takes = Seconds(1);
    cluster_.devices.clear();
    for (int node = 0; node < functions_; ++node)
      for (int d = 0; d < kDevicesOfNode; ++d) {
        const std::string name = numbered("node", node);
        cluster_.devices.push_back({.id = name + "/cpu" + std::to_string(d),
                                    .node = name,
                                    .millicores = 4000,
                                    .memory = Bytes{16} << 30,
                                    .sm_quantum = {250},
                                    .price_per_hour = 1});
      }
    size_t device = 0;
    for (int f = 0; f < functions_; ++f) {
      cluster_.load[name_of(f)] = kLoadOfInstance * copies_of(f);
      for (int copy = 0; copy < copies_of(f); ++copy)
        cluster_.adopt({.id = name_of(f).name + "-1-" + std::to_string(copy),
                        .function = name_of(f),
                        .revision = 1,
                        .state = InstanceState::kReady,
                        .parts = {{cluster_.devices[device++].id,
                                   {.sm = kWhole, .quota = {{500}, kWhole}},
                                   {}}},
                        .batch = 4});
    }
  }

  void ended(std::string_view phase) {
    const double now = cpu_ms() - metered_.own_ms;
    const double ms = now - std::exchange(mark_, now);
    tick_.ms += ms;
    tick_.phases[std::string(phase)] += ms;
  }

  const int functions_;
  const TemporaryFolder folder_;
  ManualClock clock_;
  UnixMillis wall_ = 1'000'000'000'000;
  Random random_{1};
  control::FakeCluster cluster_{clock_};
  predict::ProfileTable predictor_;
  MeteredCluster metered_{cluster_};
  control::MemoryDesiredState desired_;
  control::MemoryJournal memory_;
  std::unique_ptr<control::Store> store_;
  std::unique_ptr<Control> control_;
  Tick tick_;
  double mark_ = 0;
  int64_t decided_ = 0;
};

struct Course {
  std::vector<double> ms;
  std::map<std::string, double, std::less<>> phases;  // sums

  void add(const Tick& tick) {
    ms.push_back(tick.ms);
    for (const auto& [phase, took] : tick.phases) phases[phase] += took;
  }
};

// Measures a steady load, then a changing one. Reports what was not exercised.
std::pair<Course, Course> measure(Report& report, int functions, int ticks, bool sqlite) {
  Platform platform(functions, sqlite);
  if (!platform.settle()) report.fail("a steady load leads to no steady state");
  const size_t instances = platform.instances();
  Course steady, changing;
  const int64_t before = platform.decided();
  for (int n = 0; n < ticks; ++n) steady.add(platform.tick());
  // Unchanged functions are decided once a second.
  const int64_t at_rest = platform.decided() - before;
  if (at_rest < int64_t{functions} * (ticks / 4 - 1))
    report.fail("not all functions were decided at a steady load");
  const int64_t calm = platform.actions(), settled = platform.decided();
  for (int n = 0; n < ticks; ++n) {
    platform.change_loads();
    changing.add(platform.tick());
  }
  const int64_t actions = platform.actions() - calm;
  if (platform.decided() - settled < int64_t{functions} * (ticks / 4 - 1) + actions / 2)
    report.fail("not all functions were decided while some changed");
  if (actions < static_cast<int64_t>(ticks * functions * kChanging / 4))
    report.fail("the loads changed, and only " + std::to_string(actions) + " actions were made");
  if (platform.routed() < static_cast<size_t>(platform.ready()) * 9 / 10 ||
      instances < 3 * static_cast<size_t>(functions))
    report.fail("the functions have too few instances, or these no routes");
  report.note(std::to_string(functions) + " functions, " + std::to_string(instances) +
              " instances at first, " + std::to_string(platform.instances()) + " at last; " +
              std::to_string(actions) + " actions in " + std::to_string(ticks) +
              " ticks with changes. A tick decided " + std::to_string(at_rest / ticks) +
              " functions at a steady load, then " +
              std::to_string((platform.decided() - settled) / ticks) + ".");
  return {std::move(steady), std::move(changing)};
}

std::string text(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.3g", value);
  return out;
}

// Returns how the time grows from `half` to `whole`, with half of the functions and with all.
std::string growth(double half, double whole) {
  return half > 0 && whole > 0 ? text(std::log2(whole / half)) : "?";
}

void print(Report& report, const std::string& functions, const std::string& load, double worst_goal,
           const Course& half, const Course& whole, bool judged) {
  const Samples s = summarise(whole.ms), before = summarise(half.ms);
  Row mean(functions + " functions, " + load + ": a tick, mean", s.mean, "ms");
  Row worst(functions + " functions, " + load + ": a tick, worst", s.max, "ms");
  mean.of(s), worst.of(s);
  report.add(judged ? mean.at_most(3) : mean);
  report.add(judged ? worst.at_most(worst_goal) : worst);
  report.note(load + ": the mean goes with functions^" + growth(before.mean, s.mean) +
              ", the worst with ^" + growth(before.max, s.max) + ". By phase, ms in the mean:");
  for (const auto& [phase, sum] : whole.phases) {
    const auto of_half = half.phases.find(phase);
    const double less = of_half == half.phases.end() ? 0 : of_half->second;
    report.note("  " + phase + " " + text(sum / s.n) + " (^" + growth(less, sum) + ")");
  }
}

// A bundle by itself, at the whole size: one row for each goal. It need not come to rest.
void measure_bundle(Report& report, const std::string& bundle, int functions, int ticks) {
  Platform platform(functions, false, bundle);
  platform.settle();
  Course steady, changing;
  const int64_t before = platform.decided();
  for (int n = 0; n < ticks; ++n) steady.add(platform.tick());
  for (int n = 0; n < ticks; ++n) {
    platform.change_loads();
    changing.add(platform.tick());
  }
  if (platform.decided() == before) report.fail(bundle + " decided nothing");
  const Samples s = summarise(steady.ms), c = summarise(changing.ms);
  report.add(Row(bundle + ": steady, mean", s.mean, "ms").of(s).at_most(3));
  report.add(Row(bundle + ": steady, worst", s.max, "ms").of(s).at_most(20));
  report.add(Row(bundle + ": 5 % changing, worst", c.max, "ms").of(c).at_most(40));
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("decide", argc, argv);
  spdlog::set_level(spdlog::level::warn);  // a line for each decision would be most of a tick
  const int functions = std::max(10, int_argument(argc, argv, "--functions", kWholeSize));
  const int ticks = std::max(8, int_argument(argc, argv, "--ticks", 80));
  const bool sqlite = std::find(argv, argv + argc, std::string_view("--sqlite")) != argv + argc;
  const auto [half_steady, half_changing] = measure(report, functions / 2, ticks, sqlite);
  const auto [steady, changing] = measure(report, functions, ticks, sqlite);
  const bool judged = functions == kWholeSize;
  const std::string size = std::to_string(functions);
  print(report, size, "steady", 20, half_steady, steady, judged);
  print(report, size, "5 % changing", 40, half_changing, changing, judged);
  if (std::find(argv, argv + argc, std::string_view("--bundles")) != argv + argc)
    for (const sluice::policy::Bundle& b : sluice::policy::bundles())
      measure_bundle(report, std::string(b.name), functions, ticks);
  return report.finish();
}
