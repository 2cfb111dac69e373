// comm: how well the time of an all-reduce is predicted for placements that were never seen, and
// how often the better of two placements is chosen (FaPES, §4.1; the paper's own error, on its
// cluster of V100, stands beside).
//
//   unseen    times by NCCL 2.14's own model with noise (learn/nccl_tuner.h), judged without it.
//             Whole shapes (GPUs, servers, switches, rings) are held out; each seed has samples,
//             split and weights of its own. Settings were chosen by the shapes for validation.
//   measured  published runs of nccl-tests, by what was learned from synthetic times. NCCL's model
//             was fitted to some of these runs, the networks to none.
//   Gloo      all-reduces over loopback among 2 to 4 threads; a line is fitted to every other size.
//
//   bench_comm [--seeds N] [--passes N] [--data FOLDER] [--json FILE]
//
// FOLDER has nccl_tests.csv; by default it is shared/data/training/nccl beside the checkout.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "bench/gloo_times.h"
#include "bench/recorded_steps.h"
#include "bench/report.h"
#include "learn/collective_trainer.h"
#include "learn/nccl_tuner.h"
#include "predict/collective.h"

namespace sluice::bench {
namespace {

using learn::CollectiveSamples;
using learn::Interconnect;
using learn::NodeFeatures;
using learn::Part;
using learn::SampledPlacement;
using predict::CollectiveModel;
using predict::CollectiveSample;
using GpuType = Interconnect::GpuType;

constexpr double kErrorGoal = 15, kChoiceGoal = 95;  // per cent
constexpr double kPaperError = 36;                   // per cent
constexpr double kSameFormula = 1e-6;
constexpr int kPairs = 3000;
// Placements whose times differ by less than the first are equally good; those by less than the
// second are not told apart by a measurement, even within a server (its noise).
constexpr double kTie = 0.01, kNoise = 0.05;

// Seconds of an all-reduce.
using Predictor = std::function<double(const SampledPlacement&, double bytes, int bytes_of_number)>;
using Predictors = std::vector<std::pair<std::string, Predictor>>;  // by name

constexpr const char* kPrinted = "GCN as printed";
constexpr const char* kBest = "GCN, features at CPUs and switches";
constexpr const char* kLeastBandwidth = "bytes / least bandwidth";
constexpr const char* kNccl = "NCCL's model itself";

GpuType type_of(const SampledPlacement& p) {
  return p.graph.nodes.front().type;  // GPUs stand first
}

double by_nccl(const SampledPlacement& p, double bytes, int) {
  return learn::nccl_all_reduce_us(learn::nccl_setup(p.graph), bytes) / 1e6;
}

// The time of a ring without latency.
double by_least_bandwidth(const SampledPlacement& p, double bytes, int) {
  return 2 * (1 - 1.0 / p.shape.gpus) * bytes / (learn::least_gb_per_second(p.graph) * 1e9);
}

// A line in bytes and ranks for each type of GPU.
Predictor by_lines(const CollectiveSamples& samples) {
  std::map<GpuType, std::vector<CollectiveSample>> known;
  for (const learn::AllReduceSample& s : samples.samples)
    if (const SampledPlacement& p = samples.placements[s.placement]; p.part == Part::kTrain)
      known[type_of(p)].push_back({p.shape.gpus, s.bytes, s.seconds});
  std::map<GpuType, CollectiveModel> lines;
  for (const auto& [type, of_type] : known)
    lines[type] = predict::fit_collective(of_type).value_or(CollectiveModel());
  return [lines](const SampledPlacement& p, double bytes, int) {
    return predict::all_reduce_seconds(lines.at(type_of(p)), p.shape.gpus, bytes);
  };
}

// Both networks learn at once.
Predictors learned(Report& report, const CollectiveSamples& samples, uint64_t seed, int passes) {
  const auto train = [&](NodeFeatures features, int layers, int hidden) {
    return learn::train_collective(
        samples,
        {.features = features, .passes = passes, .layers = layers, .hidden = hidden, .seed = seed});
  };
  learn::TrainedCollective printed, best;
  {
    // The sizes did best on the shapes for validation.
    const std::jthread beside([&] { printed = train(NodeFeatures::kPrinted, 4, 24); });
    best = train(NodeFeatures::kPlacement, 3, 40);
  }
  if (!(std::max(printed.largest_difference, best.largest_difference) < kSameFormula))
    report.fail("a network is not the one that was trained");
  const auto by_network = [](const learn::GraphNetwork& network) {
    return [network](const SampledPlacement& p, double bytes, int bytes_of_number) {
      const learn::GraphInput input(p.graph, p.largest_gb_per_second, network.features);
      return learn::all_reduce_seconds(network, input, bytes, bytes_of_number);
    };
  };
  return {{kPrinted, by_network(printed.network)},
          {kBest, by_network(best.network)},
          {"a line in bytes and ranks (alpha-beta)", by_lines(samples)},
          {kLeastBandwidth, by_least_bandwidth}};
}

double percent_off(double predicted, double truth) {
  return 100 * std::abs(predicted / truth - 1);
}

// The mean error over the test's samples.
double unseen_error(const CollectiveSamples& samples, const Predictor& predict, bool one_server) {
  std::vector<double> all;
  for (const learn::AllReduceSample& s : samples.samples) {
    const SampledPlacement& p = samples.placements[s.placement];
    if (p.part == Part::kTest && (!one_server || p.shape.servers == 1))
      all.push_back(percent_off(predict(p, s.bytes, s.bytes_of_number), s.exact_seconds));
  }
  return summarise(all).mean;
}

struct Pair {
  const SampledPlacement *better, *worse;
  double bytes;
  double lost;  // by the wrong choice, as a part of the better's time
};

// Pairs of the test's placements with equally many GPUs, one of which is better.
std::vector<Pair> pairs_of(const CollectiveSamples& samples, uint64_t seed) {
  std::map<std::pair<GpuType, int>, std::vector<const SampledPlacement*>> alike;
  for (const SampledPlacement& p : samples.placements)
    if (p.part == Part::kTest) alike[{type_of(p), p.shape.gpus}].push_back(&p);
  std::vector<std::vector<const SampledPlacement*>> groups;
  for (const auto& [key, group] : alike) groups.push_back(group);
  Random random(seed);
  std::vector<Pair> pairs;
  for (int i = 0; i < kPairs; ++i) {
    const auto& group = groups[random.below(groups.size())];
    Pair p{group[random.below(group.size())], group[random.below(group.size())],
           64 * std::exp(random.uniform() * std::log(1 << 24)), 0};
    double better = by_nccl(*p.better, p.bytes, 4), worse = by_nccl(*p.worse, p.bytes, 4);
    if (better > worse) {
      std::swap(p.better, p.worse);
      std::swap(better, worse);
    }
    p.lost = worse / better - 1;
    if (p.lost >= kTie) pairs.push_back(p);
  }
  return pairs;
}

// Equal predictions are right in one half.
struct Choices {
  double right = 0, right_beyond_noise = 0, lost = 0;  // per cent
};
Choices choices_of(const std::vector<Pair>& pairs, const Predictor& predict) {
  double right = 0, beyond = 0, all_beyond = 0, lost = 0;
  for (const Pair& p : pairs) {
    const double better = predict(*p.better, p.bytes, 4), worse = predict(*p.worse, p.bytes, 4);
    const double is_right = better < worse ? 1 : better == worse ? 0.5 : 0;
    right += is_right;
    lost += (1 - is_right) * p.lost;
    if (p.lost < kNoise) continue;
    beyond += is_right;
    ++all_beyond;
  }
  const auto all = static_cast<double>(pairs.size());
  return {100 * right / all, 100 * beyond / all_beyond, 100 * lost / all};
}

// A published run on all GPUs of some servers under one switch.
struct Run {
  const char* name;
  GpuType type;
  int servers;
  bool nvlink = true;  // false: two GPUs on each of two sockets
};
constexpr Run kRuns[] = {
    {"v100x8_mesh", GpuType::kV100, 1},       {"v100x8_oci", GpuType::kV100, 1},
    {"v100x4_sys", GpuType::kV100, 1, false}, {"a100x8_nvswitch", GpuType::kA100, 1},
    {"v100x16_efa100", GpuType::kV100, 2},    {"v100x16_efa100_eks", GpuType::kV100, 2},
    {"v100x16_efa_2019", GpuType::kV100, 2},  {"a100x16_efa400", GpuType::kA100, 2},
    {"a100x16_efa400_b", GpuType::kA100, 2},  {"a100x16_efa400_dlami", GpuType::kA100, 2},
    {"a100x16_p4de", GpuType::kA100, 2}};

SampledPlacement placement_of(const Run& run) {
  const Interconnect cluster = learn::cluster_of(run.type, run.servers);
  std::vector<int> gpus;
  for (int i = 0; i < 8 * run.servers; ++i)
    if (run.nvlink || i % 4 < 2) gpus.push_back(i);
  SampledPlacement p{learn::subgraph(cluster, gpus), learn::largest_gb_per_second(cluster), {}};
  if (!run.nvlink) std::erase_if(p.graph.edges, [](const auto& e) { return e.nvlinks > 0; });
  p.shape = learn::shape_of(p.graph);
  return p;
}

// The mean error over the sizes of all runs on so many servers that are within what was learned.
double measured_error(const CollectivesByName& runs, const Predictor& predict, int servers) {
  std::vector<double> all;
  for (const Run& run : kRuns) {
    const auto found = runs.find(run.name);
    if (run.servers != servers || found == runs.end()) continue;
    const SampledPlacement placement = placement_of(run);
    for (const CollectiveSample& s : found->second)
      if (s.bytes >= 64 && s.bytes <= 1 << 30)
        all.push_back(percent_off(predict(placement, s.bytes, 4), s.seconds));
  }
  return summarise(all).mean;
}

// By case and then by predictor, a figure of each seed.
using Figures = std::map<std::string, std::map<std::string, std::vector<double>>>;

void measure_seed(Report& report, Figures& f, const CollectivesByName& runs, uint64_t seed,
                  int passes) {
  const CollectiveSamples samples = learn::sample_collectives(seed);
  const std::vector<Pair> pairs = pairs_of(samples, seed);
  Predictors all = learned(report, samples, seed, passes);
  report.note("Seed " + std::to_string(seed) + ": " + std::to_string(samples.placements.size()) +
              " placements, " + std::to_string(samples.samples.size()) + " samples, " +
              std::to_string(pairs.size()) + " pairs.");
  for (const auto& [name, predict] : all) {
    f["unseen shapes"][name].push_back(unseen_error(samples, predict, false));
    f["unseen shapes in one server"][name].push_back(unseen_error(samples, predict, true));
    const Choices choices = choices_of(pairs, predict);
    f["the better of two"][name].push_back(choices.right);
    f["the better of two, 5 % apart"][name].push_back(choices.right_beyond_noise);
    f["time lost by the choice"][name].push_back(choices.lost);
  }
  if (runs.empty()) return;
  all.emplace_back(kNccl, by_nccl);
  for (const auto& [name, predict] : all) {
    f["measured, one server"][name].push_back(measured_error(runs, predict, 1));
    f["measured, two servers"][name].push_back(measured_error(runs, predict, 2));
  }
}

void add_figures(Report& report, const Figures& figures) {
  for (const auto& [what, of_case] : figures)
    for (const auto& [name, of_seeds] : of_case) {
      if (name == kNccl) continue;
      const Samples s = summarise(of_seeds);
      Row row(what + ": " + name, s.mean, "%");
      const char* reference = of_case.contains(kNccl) ? kNccl : kLeastBandwidth;
      row.of(s).beside(reference, summarise(of_case.at(reference)).mean);
      if (what == "unseen shapes") row.beside("FaPES, on its cluster", kPaperError);
      if (name == kBest && what == "unseen shapes") row.at_most(kErrorGoal);
      if (name == kBest && what == "the better of two") row.at_least(kChoiceGoal);
      report.add(row);
    }
}

void measure_gloo(Report& report) {
  std::vector<size_t> sizes;
  for (size_t bytes = 4096; bytes <= size_t{16} << 20; bytes *= 2) sizes.push_back(bytes);
  std::vector<CollectiveSample> known, held_out;
  for (const int ranks : {2, 3, 4}) {
    const auto measured = gloo_all_reduces(ranks, sizes);
    if (!measured.ok()) return report.fail(measured.error().message);
    for (size_t i = 0; i < measured->size(); ++i)
      (i % 2 == 0 ? known : held_out).push_back((*measured)[i]);
  }
  const auto line = predict::fit_collective(known);
  if (!line) return report.fail("no line fits Gloo's times");
  const auto errors = [&](const std::vector<CollectiveSample>& of) {
    std::vector<double> all;
    for (const CollectiveSample& s : of)
      all.push_back(percent_off(predict::all_reduce_seconds(*line, s.ranks, s.bytes), s.seconds));
    return summarise(all);
  };
  const Samples s = errors(held_out);
  report.add(Row("Gloo over loopback: a line, held-out sizes", s.mean, "%")
                 .of(s)
                 .beside("in sample, %", errors(known).mean));
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("comm", argc, argv);
  const int seeds = int_argument(argc, argv, "--seeds", 3);
  const int passes = int_argument(argc, argv, "--passes", 100);
  const std::string folder = text_argument(argc, argv, "--data", SLUICE_NCCL_RUNS);
  CollectivesByName runs;
  if (!std::filesystem::is_directory(folder))
    report.note("Measured runs are skipped: there is no folder " + folder + ".");
  else if (auto read = read_nccl(folder); read.ok())
    runs = std::move(*read);
  else
    report.fail(read.error().message);
  Figures figures;
  for (int seed = 1; seed <= seeds; ++seed)
    measure_seed(report, figures, runs, static_cast<uint64_t>(seed), passes);
  add_figures(report, figures);
  measure_gloo(report);
  return report.finish();
}
