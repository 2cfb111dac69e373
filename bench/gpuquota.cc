// gpuquota: the share of a GPU (gpu_bed.h) that a program uses against its granted share, measured
// by the device itself, over windows of a second. Programs are unmodified and run under the
// preloaded hook; each launches kernels of its own kind as fast as it may.
//
// Its options: --help.
//
// References for each case, in the same run (except with --ours): FaST-GShare's arbiter in place of
// ours (multi_token), and the same programs held by other methods: tokens for blocks, and tokens
// under utilisation feedback (gpu_rivals.h).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/report.h"
#include "tests/support/gpu_bed.h"
#include "wire/permit.h"

namespace sluice::bench {
namespace {

constexpr Nanos kWindow = Seconds(1);
// By then the device has confirmed the programs' reports, and their use before they were held is
// paid for: at 5 % each kernel of 20 ms takes 0.4 s.
constexpr Nanos kSettle = Seconds(5);

struct TenantSpec {
  int request, limit;  // permille; measured if they are equal
  GpuProgram program;
  SmShare part = {};
};

struct Case {
  std::string name;
  std::vector<TenantSpec> tenants;
  bool quick = false;
  bool side_by_side = false;  // as clients of MPS; a share is one of the time in its SMs
};

// The worst of the tenants that may use no more than their request.
struct Error {
  double mean = 0, worst = 0;  // in percent of the device, absolute
  bool worked = true;
  std::string shares;
};

GpuProgram program(const char* load, const char* shape, Nanos kernel) {
  return {.load = load, .shape = shape, .kernel = kernel};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const struct {
    const char* name;
    const char* shape;
    Nanos kernel;
  } kKinds[] = {{"10 us kernels", "eager", Micros(10)},
                {"10 us kernels in 4 streams", "streams", Micros(10)},
                {"graphs of 20 x 10 us", "graph", Micros(10)},
                {"20 ms kernels", "eager", Millis(20)}};
  for (const auto& kind : kKinds) {
    const GpuProgram greedy = program("greedy", kind.shape, kind.kernel);
    for (const int quota : {50, 200, 500, 950})
      all.push_back({std::to_string(quota / 10) + " % alone, " + kind.name,
                     {{quota, quota, greedy}},
                     quota == 200});
    all.push_back(
        {std::string("5 + 95 % greedy, ") + kind.name, {{50, 50, greedy}, {950, 950, greedy}}});
    all.push_back({std::string("20 + 30 + 50 % greedy, ") + kind.name,
                   {{200, 200, greedy}, {300, 300, greedy}, {500, 500, greedy}},
                   true});
    all.push_back({std::string("8 greedy, 5 to 20 %, ") + kind.name,
                   {{50, 50, greedy},
                    {50, 50, greedy},
                    {100, 100, greedy},
                    {100, 100, greedy},
                    {150, 150, greedy},
                    {150, 150, greedy},
                    {200, 200, greedy},
                    {200, 200, greedy}},
                   true});
  }
  for (const int processes : {2, 4, 8}) {
    for (GpuProgram several :
         {program("greedy", "eager", Millis(1)), program("greedy", "graph", Micros(50))}) {
      several.processes = processes;
      all.push_back({"20 % alone, " + std::to_string(processes) + " processes, " + several.shape,
                     {{200, 200, several}},
                     processes == 4});
    }
  }
  const GpuProgram legacy = program("greedy", "legacy", Micros(200));
  all.push_back({"20 % alone, legacy stream", {{200, 200, legacy}}});
  const GpuProgram greedy = program("greedy", "eager", Micros(10));
  for (const char* load : {"idle", "bursty"}) {
    const GpuProgram other = program(load, "eager", Micros(10));
    all.push_back({std::string("40 % beside 3 ") + load,
                   {{400, 400, greedy}, {200, 1000, other}, {200, 1000, other}, {200, 1000, other}},
                   true});
  }
  const SmShare left{kNone, {500}}, right{{500}, {500}}, all_of_it{};
  all.push_back({"MPS, 5 and 40 % in halves of the SMs",
                 {{50, 50, greedy, left}, {400, 400, greedy, right}},
                 true,
                 true});
  all.push_back({"MPS, 30 + 60 % and 45 + 50 % in halves of the SMs",
                 {{300, 300, greedy, left},
                  {600, 600, greedy, left},
                  {450, 450, greedy, right},
                  {500, 500, greedy, right}},
                 true,
                 true});
  all.push_back({"MPS, 20 + 40 % in all of the SMs",
                 {{200, 200, greedy, all_of_it}, {400, 400, greedy, all_of_it}},
                 false,
                 true});
  all.push_back(
      {"MPS, 20 % in all of the SMs, legacy stream", {{200, 200, legacy, all_of_it}}, false, true});
  return all;
}

bool is_measured(const TenantSpec& t) {
  return t.request == t.limit;
}

struct Options {
  bool quick = false, list = false, ours_alone = false, charges = false;
  std::string only;
  int windows = 0;  // 0: not given
};

double share_of(Nanos used, uint64_t passed_ns) {
  return 100 * seconds(used) / seconds(Nanos(passed_ns));
}

// What the node charges each, beside what the device worked for it and what its account tells.
void print_charges(GpuBed& bed, const std::vector<policy::ClientId>& ids) {
  for (const policy::ClientId id : ids) {
    const node::ClientState state = bed.state(id);
    const auto account = bed.accounted(id);
    std::printf("  client %u: charged %.3f s, of that ungated %.3f; stamped %.3f; account:", id,
                seconds(state.used), seconds(state.ungated), seconds(bed.used(id)));
    if (account)
      std::printf(" %.3f of %.3f s\n", seconds(account->busy),
                  seconds(account->until - account->from));
    else
      std::puts(" nothing");
  }
}

Error measure(const Case& c, std::string_view arbiter, HeldBy held_by, int windows,
              const Options& options) {
  GpuBed bed(arbiter, c.side_by_side);
  std::vector<policy::ClientId> ids;
  for (const TenantSpec& t : c.tenants)
    ids.push_back(
        bed.start(t.program, t.request, t.limit, is_measured(t) ? held_by : HeldBy::kHook, t.part));
  bool worked = true;
  for (const policy::ClientId id : ids) worked &= bed.works(id, Nanos(1));
  nap(kSettle);
  std::vector<std::vector<double>> shares(ids.size());
  std::vector<Nanos> used(ids.size());
  for (int w = -1; w < windows; ++w) {
    static uint64_t then;
    const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
    for (size_t i = 0; i < ids.size(); ++i) {
      const Nanos before = std::exchange(used[i], bed.used(ids[i]));
      if (w >= 0) shares[i].push_back(share_of(used[i] - before, now - then));
    }
    then = now;
    if (options.charges) print_charges(bed, ids);
    if (w + 1 < windows) nap(kWindow);
  }
  Error error{.worked = worked};
  for (size_t i = 0; i < ids.size(); ++i) {
    const Samples s = summarise(shares[i]);
    const double wanted = c.tenants[i].request / 10.0;
    char text[64];
    std::snprintf(text, sizeof text, " %.2f", s.mean);
    error.shares += text;
    error.worked &= s.max > 0 || c.tenants[i].program.load == "idle";
    if (held_by == HeldBy::kHook) error.worked &= bed.attached(ids[i]);
    if (!is_measured(c.tenants[i])) continue;
    error.mean = std::max(error.mean, std::abs(s.mean - wanted));
    for (const double share : shares[i])
      error.worst = std::max(error.worst, std::abs(share - wanted));
  }
  return error;
}

void run(Report& report, const Case& c, int windows, const Options& options) {
  const StolenTime stolen;
  const Error ours = measure(c, "shares", HeldBy::kHook, windows, options);
  std::printf("%s: used%s; mean error %.2f, worst window %.2f; host took %.1f %%\n", c.name.c_str(),
              ours.shares.c_str(), ours.mean, ours.worst, stolen.percent());
  std::fflush(stdout);
  if (!ours.worked) report.fail(c.name + ": a program did no work, or was not held");
  const double longest = 100 * seconds(c.tenants[0].program.kernel) / seconds(kWindow);
  Row mean(c.name + ": mean error", ours.mean, "%");
  Row worst(c.name + ": worst window", ours.worst, "%");
  mean.n = worst.n = windows;
  mean.at_most(1);
  worst.at_most(std::max(1.0, longest));
  if (options.ours_alone) {
    report.add(mean);
    report.add(worst);
    return;
  }
  const struct {
    const char* name;
    std::string_view arbiter;
    HeldBy held_by;
  } kOthers[] = {{"multi_token", "multi_token", HeldBy::kHook},
                 {"block tokens", "shares", HeldBy::kTokens},
                 {"utilisation feedback", "shares", HeldBy::kFeedback}};
  for (const auto& other : kOthers) {
    const Error theirs =
        measure(c, other.arbiter, other.held_by, std::max(windows / 4, 3), options);
    std::printf("  %s: used%s; mean error %.2f, worst window %.2f\n", other.name,
                theirs.shares.c_str(), theirs.mean, theirs.worst);
    std::fflush(stdout);
    if (!theirs.worked) report.fail(c.name + ": " + other.name + " did no work");
    report.add(mean.beside(other.name, theirs.mean));
    report.add(worst.beside(other.name, theirs.worst));
  }
}

constexpr char kUsage[] =
    "bench_gpuquota [--quick] [--only TEXT] [--list] [--windows N] [--ours] [--json FILE]\n"
    "  --quick      some of the cases, 5 windows each\n"
    "  --only TEXT  the cases whose name has TEXT in it\n"
    "  --list       names the cases, and runs none\n"
    "  --windows N  so many windows of a second in each (60)\n"
    "  --charges    prints what each is charged, and what the device's account tells of it\n"
    "  --ours       without what is measured beside them: takes half the time\n"
    "  --json FILE  appends the rows to FILE\n";

// Returns nothing if there is an unknown argument.
std::optional<Options> options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const bool has_value = i + 1 < argc;
    if (name == "--quick")
      options.quick = true;
    else if (name == "--list")
      options.list = true;
    else if (name == "--ours")
      options.ours_alone = true;
    else if (name == "--charges")
      options.charges = true;
    else if (name == "--only" && has_value)
      options.only = argv[++i];
    else if (name == "--windows" && has_value)
      options.windows = std::max(std::atoi(argv[++i]), 1);
    else
      return std::nullopt;
  }
  return options;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("gpuquota", argc, argv);
  const std::optional<Options> options = options_of(argc, argv);
  if (!options) {
    const bool asked = argc == 2 && argv[1] == std::string_view("--help");
    std::fputs(kUsage, asked ? stdout : stderr);
    return asked ? 0 : 2;
  }
  const int windows = options->windows > 0 ? options->windows : options->quick ? 5 : 60;
  for (const Case& c : cases()) {
    if ((options->quick && !c.quick) || c.name.find(options->only) == std::string::npos) continue;
    if (options->list)
      std::puts(c.name.c_str());
    else if (c.tenants[0].program.processes > 1 && GpuBed::is_real())
      std::printf("%s: skipped, for a program's processes would stamp the same places\n",
                  c.name.c_str());
    else if (c.side_by_side && !GpuBed::goes_side_by_side())
      std::printf("%s: skipped, for no MPS control daemon runs\n", c.name.c_str());
    else
      run(report, c, windows, *options);
  }
  if (options->list) return 0;
  report.note(GpuBed::device() + "; windows of 1 s; the worst of the tenants");
  return report.finish();
}
