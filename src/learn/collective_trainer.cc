#include "learn/collective_trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/random.h"
#include "learn/schedule.h"

namespace sluice::learn {
namespace {

using torch::Tensor;

constexpr double kSmooth = 0.1;    // errors of a logarithm below it count by their square
constexpr int kPassesOfBatch = 5;  // then other samples stand together
constexpr double kFirstLog = -8;   // of seconds: what the network says at first

// Some samples as one graph of many parts.
struct Batch {
  Tensor features;  // (nodes, features)
  Tensor terms;     // (nodes, nodes), sparse
  Tensor pooling;   // (samples, nodes), sparse
  Tensor label;     // (samples): log seconds
};

Tensor sparse(std::vector<int64_t> to, const std::vector<int64_t>& from,
              const std::vector<double>& weights, int64_t rows, int64_t columns) {
  const auto count = static_cast<int64_t>(weights.size());
  to.insert(to.end(), from.begin(), from.end());
  return torch::sparse_coo_tensor(torch::tensor(to, torch::kLong).view({2, count}),
                                  torch::tensor(weights, torch::kDouble), {rows, columns})
      .coalesce();
}

Batch batch_of(const std::vector<GraphInput>& inputs, std::span<const AllReduceSample> samples) {
  std::vector<double> features, weights, pooling, label;
  std::vector<int64_t> to, from, sample, node;
  int64_t nodes = 0;
  for (const AllReduceSample& s : samples) {
    const GraphInput& input = inputs[s.placement];
    const std::vector<double> own = input.features(s.bytes, s.bytes_of_number);
    features.insert(features.end(), own.begin(), own.end());
    for (const GraphInput::Term& t : input.terms()) {
      to.push_back(nodes + t.to);
      from.push_back(nodes + t.from);
      weights.push_back(t.weight);
    }
    for (const double weight : input.pooling()) {
      sample.push_back(static_cast<int64_t>(label.size()));
      node.push_back(nodes++);
      pooling.push_back(weight);
    }
    label.push_back(std::log(s.seconds));
  }
  const auto count = static_cast<int64_t>(label.size());
  return {torch::tensor(features, torch::kDouble).view({nodes, -1}),
          sparse(std::move(to), from, weights, nodes, nodes),
          sparse(std::move(sample), node, pooling, count, nodes),
          torch::tensor(label, torch::kDouble)};
}

struct Formula : torch::nn::Module {
  Formula(const CollectiveTraining& settings, Random& random) {
    int64_t size = kNodeFeatures;
    const auto linear = [&](const std::string& name, int64_t outputs) {
      torch::nn::Linear layer(size, outputs);
      layer->to(torch::kDouble);
      const torch::NoGradGuard no_gradients;
      const double most = 1 / std::sqrt(static_cast<double>(size));
      for (Tensor t : {layer->weight, layer->bias}) {
        double* at = t.data_ptr<double>();
        for (int64_t i = 0; i < t.numel(); ++i) at[i] = most * (2 * random.uniform() - 1);
      }
      size = outputs;
      return register_module(name, layer);
    };
    for (int i = 0; i < settings.layers; ++i)
      layers.push_back(linear("layer" + std::to_string(i), settings.hidden));
    last = linear("last", 1);
    const torch::NoGradGuard no_gradients;
    last->bias.fill_(kFirstLog);
  }

  Tensor forward(const Batch& b) {
    Tensor h = b.features;
    for (torch::nn::Linear& layer : layers) h = torch::silu(layer(torch::mm(b.terms, h)));
    return last(torch::mm(b.pooling, h)).squeeze(1);
  }

  std::vector<torch::nn::Linear> layers;
  torch::nn::Linear last = nullptr;
};

std::vector<double> numbers(const Tensor& t) {
  const Tensor flat = t.detach().contiguous().flatten();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

GraphNetwork network_of(const Formula& f, NodeFeatures features) {
  GraphNetwork out{.features = features,
                   .layers = {},
                   .last = numbers(f.last->weight),
                   .bias = numbers(f.last->bias)[0]};
  for (const torch::nn::Linear& layer : f.layers)
    out.layers.push_back({static_cast<size_t>(layer->weight.size(1)),
                          static_cast<size_t>(layer->weight.size(0)), numbers(layer->weight.t()),
                          numbers(layer->bias)});
  return out;
}

std::vector<GraphInput> inputs_of(const CollectiveSamples& samples, NodeFeatures features) {
  std::vector<GraphInput> inputs;
  for (const SampledPlacement& p : samples.placements)
    inputs.emplace_back(p.graph, p.largest_gb_per_second, features);
  return inputs;
}

std::vector<AllReduceSample> of_part(const CollectiveSamples& samples, Part part) {
  std::vector<AllReduceSample> out;
  for (const AllReduceSample& s : samples.samples)
    if (samples.placements[s.placement].part == part) out.push_back(s);
  return out;
}

template <class T>
void shuffle(std::vector<T>& all, Random& random) {
  for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random.below(i)]);
}

double largest_difference(Formula& formula, const GraphNetwork& network,
                          const std::vector<GraphInput>& inputs,
                          const std::vector<AllReduceSample>& samples) {
  const torch::NoGradGuard no_gradients;
  const std::vector<double> theirs = numbers(formula.forward(batch_of(inputs, samples)));
  double most = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const AllReduceSample& s = samples[i];
    const double ours =
        log_all_reduce_seconds(network, inputs[s.placement], s.bytes, s.bytes_of_number);
    most = std::max(most, std::abs(ours - theirs[i]));
  }
  return most;
}

}  // namespace

TrainedCollective train_collective(const CollectiveSamples& samples,
                                   const CollectiveTraining& settings) {
  torch::set_num_threads(1);
  Random random(settings.seed);
  const std::vector<GraphInput> inputs = inputs_of(samples, settings.features);
  std::vector<AllReduceSample> training = of_part(samples, Part::kTrain);
  Formula formula(settings, random);
  torch::optim::AdamW optimizer(
      formula.parameters(), torch::optim::AdamWOptions(settings.rate).weight_decay(settings.decay));
  auto& options = static_cast<torch::optim::AdamWOptions&>(optimizer.param_groups()[0].options());
  const auto smooth = torch::nn::functional::SmoothL1LossFuncOptions().beta(kSmooth);
  std::vector<Batch> batches;
  const auto size = static_cast<size_t>(settings.batch);
  for (int pass = 0; pass < settings.passes; ++pass) {
    if (pass % kPassesOfBatch == 0) {
      shuffle(training, random);
      batches.clear();
      for (size_t at = 0; at < training.size(); at += size)
        batches.push_back(batch_of(
            inputs, std::span(training).subspan(at, std::min(size, training.size() - at))));
    }
    shuffle(batches, random);
    for (size_t i = 0; i < batches.size(); ++i) {
      const double done =
          (pass + static_cast<double>(i) / static_cast<double>(batches.size())) / settings.passes;
      options.lr(rate_at(done, settings.rate));
      optimizer.zero_grad();
      torch::nn::functional::smooth_l1_loss(formula.forward(batches[i]), batches[i].label, smooth)
          .backward();
      torch::nn::utils::clip_grad_norm_(formula.parameters(), 1.0);
      optimizer.step();
    }
  }
  TrainedCollective out{network_of(formula, settings.features)};
  out.largest_difference =
      largest_difference(formula, out.network, inputs, of_part(samples, Part::kValidate));
  return out;
}

double collective_error(const CollectiveSamples& samples, Part part, const GraphNetwork& network) {
  const std::vector<GraphInput> inputs = inputs_of(samples, network.features);
  double sum = 0, count = 0;
  for (const AllReduceSample& s : of_part(samples, part)) {
    const double predicted =
        all_reduce_seconds(network, inputs[s.placement], s.bytes, s.bytes_of_number);
    sum += std::abs(predicted / s.exact_seconds - 1);
    ++count;
  }
  return 100 * sum / count;
}

}  // namespace sluice::learn
