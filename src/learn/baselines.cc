#include "learn/baselines.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "base/random.h"
#include "learn/schedule.h"

namespace sluice::learn {
namespace {

using torch::Tensor;

constexpr int64_t kTypes = static_cast<int64_t>(std::size(kOperatorTypes));
constexpr int64_t kStatic = 3 + kTypes;  // MACs, parameters, operators; counts
constexpr int64_t kConfiguration = 3;
constexpr int64_t kQuotaTimes = static_cast<int64_t>(std::size(kProfiledQuotas));
constexpr double kSmooth = 0.03;

double log_of(Share s) {
  return std::log(s.permille / 1000.0);
}

// A model as tensors of floats. `times` is false for a predictor that sees no run.
struct Graph {
  Tensor nodes;      // (operators, features)
  Tensor from, to;   // of each edge in both directions, and of each operator to itself
  Tensor features;   // static, and the quotas' times
  Tensor at, label;  // the points to learn: (points, kConfiguration); log ms
};

Tensor configurations(const std::vector<Configuration>& all) {
  Tensor t = torch::empty({static_cast<int64_t>(all.size()), kConfiguration});
  auto a = t.accessor<float, 2>();
  for (size_t i = 0; i < all.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    a[row][0] = static_cast<float>(std::log(all[i].batch));
    a[row][1] = static_cast<float>(log_of(all[i].sm));
    a[row][2] = static_cast<float>(log_of(all[i].quota));
  }
  return t;
}

std::vector<float> static_features(const OperatorGraph& graph) {
  std::vector<float> f(static_cast<size_t>(kStatic), 0);
  double macs = 0, parameters = 0;
  for (const Operator& o : graph.operators) {
    macs += static_cast<double>(o.macs);
    parameters += static_cast<double>(o.parameters);
    const auto type = std::find(std::begin(kOperatorTypes), std::end(kOperatorTypes), o.type);
    f[static_cast<size_t>(3 + (type - std::begin(kOperatorTypes)))] += 1;
  }
  f[0] = static_cast<float>(std::log1p(macs));
  f[1] = static_cast<float>(std::log1p(parameters));
  f[2] = static_cast<float>(graph.operators.size());
  for (size_t i = 2; i < f.size(); ++i) f[i] = std::log1p(f[i]);
  return f;
}

Graph graph_of(const trace::LatencyData& data, const trace::LatencyModel& m, bool times) {
  constexpr double kLeastMs = 1e-4;
  Graph g;
  const auto count = static_cast<int64_t>(m.graph.operators.size());
  const int64_t features = static_cast<int64_t>(predict::kOperatorFeatures) - 2 +
                           (times ? static_cast<int64_t>(data.sms.size()) : 0);
  g.nodes = torch::zeros({count, features});
  auto nodes = g.nodes.accessor<float, 2>();
  std::vector<int64_t> from, to;
  for (int64_t i = 0; i < count; ++i) {
    const Operator& o = m.graph.operators[static_cast<size_t>(i)];
    const predict::FeatureVector x = predict::OperatorFeatures(o).at(0, 0);
    for (size_t j = 0; j + 2 < x.size(); ++j)
      nodes[i][static_cast<int64_t>(j)] = static_cast<float>(x[j]);
    const std::vector<double>& ms = m.operator_ms[static_cast<size_t>(i)];
    for (size_t s = 0; times && s < ms.size(); ++s)
      nodes[i][static_cast<int64_t>(x.size() - 2 + s)] =
          static_cast<float>(std::log(std::max(ms[s], kLeastMs)));
    from.push_back(i), to.push_back(i);
    for (const int other : o.from) {
      from.push_back(other), to.push_back(i);
      from.push_back(i), to.push_back(other);
    }
  }
  g.from = torch::tensor(from, torch::kLong);
  g.to = torch::tensor(to, torch::kLong);
  std::vector<float> all = static_features(m.graph);
  if (times) {
    const predict::ShortProfile p = profile_of(data, m);
    for (const predict::TimeAt& t : p.quotas) all.push_back(static_cast<float>(std::log(t.ms)));
    all.resize(static_cast<size_t>(kStatic + kQuotaTimes), 0);
  }
  g.features = torch::tensor(all);
  return g;
}

// Mean 0 and deviation 1 over the examples. What is the same in all of them, such as the count of a
// type that none has, remains as it is.
struct Scale {
  Tensor mean, deviation;
  explicit Scale(const Tensor& rows) : mean(rows.mean(0)), deviation(rows.std(0).nan_to_num(0)) {
    deviation = torch::where(deviation < 1e-2, torch::ones_like(deviation), deviation);
  }
  Tensor operator()(const Tensor& x) const { return (x - mean) / deviation; }
};

// Softmax-weighted sums over each operator's neighbours, in `kHeads` independent ways (Veličković
// 2018).
struct Attention : torch::nn::Module {
  static constexpr int64_t kHeads = 4, kWidth = 16;

  explicit Attention(int64_t inputs)
      : project(register_module("project", torch::nn::Linear(inputs, kHeads * kWidth))),
        own(register_parameter("own", torch::randn({kHeads, kWidth}) * 0.1)),
        other(register_parameter("other", torch::randn({kHeads, kWidth}) * 0.1)) {}

  Tensor forward(const Tensor& x, const Graph& g) {
    const int64_t n = x.size(0);
    const Tensor h = project(x).view({n, kHeads, kWidth});
    const Tensor score = torch::leaky_relu(
        (h * own).sum(-1).index_select(0, g.to) + (h * other).sum(-1).index_select(0, g.from), 0.2);
    // Scores are small: the largest of all keeps every exponential in range.
    const Tensor weight = torch::exp(score - score.detach().amax(0, true));
    const Tensor sum = torch::zeros({n, kHeads}).index_add(0, g.to, weight) + 1e-9;
    const Tensor message =
        h.index_select(0, g.from) * (weight / sum.index_select(0, g.to)).unsqueeze(-1);
    return torch::zeros({n, kHeads, kWidth}).index_add(0, g.to, message).flatten(1);
  }

  torch::nn::Linear project;
  Tensor own, other;
};

struct Net : torch::nn::Module {
  Net(int64_t node_features, int64_t graph_features, bool with_graph, int64_t width = 64)
      : graph(with_graph),
        one(graph ? register_module("one", std::make_shared<Attention>(node_features)) : nullptr),
        two(graph ? register_module(
                        "two", std::make_shared<Attention>(Attention::kHeads * Attention::kWidth))
                  : nullptr),
        head(register_module(
            "head",
            torch::nn::Sequential(
                torch::nn::Linear(graph_features + kConfiguration +
                                      (graph ? 2 * Attention::kHeads * Attention::kWidth : 0),
                                  width),
                torch::nn::SiLU(), torch::nn::Linear(width, width), torch::nn::SiLU(),
                torch::nn::Linear(width, 1)))) {}

  // Log ms at each configuration.
  Tensor predict(const Graph& g, const Tensor& at) {
    Tensor known = (*features)(g.features);
    if (graph) {
      Tensor x = (*nodes)(g.nodes);
      x = torch::elu(one->forward(x, g));
      x = torch::elu(two->forward(x, g));
      known = torch::cat({known, x.mean(0), std::get<0>(x.max(0))});
    }
    const Tensor rows = torch::cat({(*configuration)(at), known.expand({at.size(0), -1})}, 1);
    return head->forward(rows).squeeze(-1) + typical;
  }

  bool graph;
  std::shared_ptr<Attention> one, two;
  torch::nn::Sequential head;
  std::unique_ptr<Scale> nodes, features, configuration;
  double typical = 0;  // mean log ms
};

std::vector<Graph> examples_of(const trace::LatencyData& data, const Chosen& chosen, bool times) {
  std::vector<Graph> examples;
  for (const trace::LatencyModel& m : data.models) {
    if (times && !has_profile(data, m)) continue;
    std::vector<Configuration> at;
    std::vector<float> label;
    for (const trace::LatencyPoint& p : m.points) {
      if (is_profiled(data, p.at) || !chosen(m, p)) continue;
      at.push_back(p.at);
      label.push_back(static_cast<float>(std::log(p.ms)));
    }
    if (at.empty()) continue;
    Graph g = graph_of(data, m, times);
    g.at = configurations(at);
    g.label = torch::tensor(label);
    examples.push_back(std::move(g));
  }
  return examples;
}

void scale(Net& net, const std::vector<Graph>& examples) {
  std::vector<Tensor> nodes, features, at, labels;
  for (const Graph& g : examples) {
    nodes.push_back(g.nodes);
    features.push_back(g.features);
    at.push_back(g.at);
    labels.push_back(g.label);
  }
  net.nodes = std::make_unique<Scale>(torch::cat(nodes));
  net.features = std::make_unique<Scale>(torch::stack(features));
  net.configuration = std::make_unique<Scale>(torch::cat(at));
  net.typical = torch::cat(labels).mean().item<double>();
}

ModelPredictor train_net(const trace::LatencyData& data, const Chosen& chosen,
                         const BaselineSettings& settings, bool times) {
  torch::manual_seed(settings.seed);
  torch::set_num_threads(1);
  std::vector<Graph> examples = examples_of(data, chosen, times);
  auto net =
      std::make_shared<Net>(examples.at(0).nodes.size(1), examples.at(0).features.size(0), times);
  scale(*net, examples);
  torch::optim::AdamW optimizer(
      net->parameters(), torch::optim::AdamWOptions(settings.rate).weight_decay(settings.decay));
  auto& options = static_cast<torch::optim::AdamWOptions&>(optimizer.param_groups()[0].options());
  Random random(settings.seed);
  const auto smooth = torch::nn::functional::SmoothL1LossFuncOptions().beta(kSmooth);
  for (int pass = 0; pass < settings.passes; ++pass) {
    options.lr(rate_at(static_cast<double>(pass) / settings.passes, settings.rate));
    optimizer.zero_grad();
    for (int i = 0; i < settings.models_a_pass; ++i) {
      const Graph& g = examples[random.below(examples.size())];
      const Tensor some = torch::randint(g.label.size(0), {settings.points_a_model}, torch::kLong);
      const Tensor loss = torch::nn::functional::smooth_l1_loss(
          net->predict(g, g.at.index_select(0, some)), g.label.index_select(0, some), smooth);
      (loss / settings.models_a_pass).backward();
    }
    torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
    optimizer.step();
  }
  return [&data, net, times](const trace::LatencyModel& m, const std::vector<Configuration>& all) {
    const torch::NoGradGuard no_gradients;
    Predictions out(all.size());
    if (times && !has_profile(data, m)) return out;
    const Tensor logs = net->predict(graph_of(data, m, times), configurations(all)).contiguous();
    for (size_t i = 0; i < all.size(); ++i) out[i] = std::exp(logs.data_ptr<float>()[i]);
    return out;
  };
}

}  // namespace

ModelPredictor train_dippm(const trace::LatencyData& data, const Chosen& chosen,
                           const BaselineSettings& settings) {
  return train_net(data, chosen, settings, false);
}

ModelPredictor train_rapp(const trace::LatencyData& data, const Chosen& chosen,
                          const BaselineSettings& settings) {
  return train_net(data, chosen, settings, true);
}

}  // namespace sluice::learn
