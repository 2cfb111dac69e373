#include "learn/work_trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/random.h"
#include "learn/schedule.h"

namespace sluice::learn {
namespace {

using predict::kOperatorFeatures;
using torch::Tensor;

constexpr int64_t kFeatures = static_cast<int64_t>(kOperatorFeatures);
constexpr int64_t kTypes = static_cast<int64_t>(std::size(kOperatorTypes));
constexpr double kSmooth = 0.03;  // errors of a logarithm below it count by their square

Tensor row(const std::vector<double>& numbers) {
  return torch::tensor(numbers, torch::kDouble);
}

double log_of(Share s) {
  return std::log(s.permille / 1000.0);
}

// One model's points as tensors.
struct Example {
  Tensor features;                     // (pairs of sm and batch, operators, kFeatures)
  Tensor count;                        // (operators): log
  Tensor types;                        // (operators, kTypes)
  Tensor log_s;                        // (pairs)
  Tensor pair, quota, label;           // (points): indices, log ms
  std::vector<double> alone, alone_s;  // log ms; log s
  std::vector<int64_t> alone_pair;
  std::vector<double> own;  // log ms at kProfiledQuotas, or with the whole quota alone
  int64_t own_pair = -1;    // of kProfiledBatch and the whole sm
};

struct Formula : torch::nn::Module {
  Formula(int hidden, std::vector<Share> quotas_of_data)
      : quotas(std::move(quotas_of_data)),
        first(register_module("first", torch::nn::Linear(kFeatures, hidden))),
        second(register_module("second", torch::nn::Linear(hidden, hidden))),
        last(register_module("last", torch::nn::Linear(hidden, 1))),
        direct(register_module("direct", torch::nn::Linear(kFeatures, 1))) {
    std::vector<double> inverse;
    for (const Share q : quotas) inverse.push_back(-log_of(q));
    throttle = register_parameter("throttle", row(inverse));
    tail = register_parameter("tail", torch::ones({}, torch::kDouble));
    sharpness = register_parameter("sharpness", torch::full({}, 2.3, torch::kDouble));
    stiffness = register_parameter("stiffness", row({-0.7, -0.2}));
    issue = register_parameter("issue", torch::full({kTypes}, -2.5, torch::kDouble));
    to(torch::kDouble);
  }

  Tensor log_device(const Example& e) {
    const Tensor x = (e.features - mean) / deviation;
    const Tensor z = torch::silu(second(torch::silu(first(x))));
    return torch::logsumexp((last(z) + direct(x)).squeeze(-1) - 3.5 + e.count, -1);
  }
  Tensor curve() const { return throttle - throttle[-1]; }
  Tensor slower(const Tensor& a, const Tensor& b) const {
    const Tensor k = torch::exp(sharpness);
    return torch::logaddexp(k * a, k * b) / k;
  }

  // θ of WorkEstimate::calibrate, with the same rounds.
  Tensor calibrated(const Example& e, const Tensor& device, double host) const {
    const double alone = *std::min_element(e.alone.begin(), e.alone.end());
    std::vector<int64_t> pairs = e.alone_pair;
    std::vector<double> measured = e.alone, floor(e.alone.size(), alone), s = e.alone_s;
    if (e.own_pair >= 0) {
      pairs.push_back(e.own_pair);
      measured.push_back(e.own.back());
      floor.push_back(host);
      s.push_back(0);
    }
    const Tensor at = device.index_select(0, torch::tensor(pairs)), m = row(measured),
                 least = row(floor), z = row(s) + 1;
    const Tensor k = torch::exp(sharpness), stiff = torch::exp(stiffness);
    Tensor theta = torch::zeros({2}, torch::kDouble);
    for (int round = 0; round < 4; ++round) {
      const Tensor d = at + theta[0] + theta[1] * z;
      const Tensor weight = torch::sigmoid(k * (d - least));
      const Tensor off = torch::clamp(m - slower(d, least), -1.5, 1.5);
      const Tensor j = torch::stack({weight, weight * z}, 1);
      theta = theta + torch::linalg_solve(j.t().matmul(j) + torch::diag(stiff),
                                          j.t().matmul(off) - stiff * theta);
    }
    return theta;
  }

  // Log ms of the host by quota of the data, where the profile has the host's and the whole's.
  Tensor own_host(const Example& e, double host) const {
    const Tensor f = curve();
    if (e.own.size() == 1) return torch::full_like(f, std::min(e.own[0], host)) + f;
    std::vector<Tensor> out;
    for (size_t i = 0; i < quotas.size(); ++i) {
      const auto above = std::find_if(std::begin(kProfiledQuotas), std::end(kProfiledQuotas),
                                      [&](Share q) { return q >= quotas[i]; });
      const auto at = static_cast<size_t>(above - std::begin(kProfiledQuotas));
      const auto factor = [&](Share q) {
        const auto found = std::find(quotas.begin(), quotas.end(), q) - quotas.begin();
        return f[found];
      };
      if (at == 0) {
        out.push_back(e.own[0] + tail * (f[static_cast<int64_t>(i)] - factor(kProfiledQuotas[0])));
        continue;
      }
      const Tensor low = factor(kProfiledQuotas[at - 1]), high = factor(kProfiledQuotas[at]);
      const Tensor part =
          torch::clamp((f[static_cast<int64_t>(i)] - low) / (high - low - 1e-9), 0.0, 1.0);
      out.push_back(e.own[at - 1] + part * (e.own[at] - e.own[at - 1]));
    }
    Tensor own = torch::stack(out);
    if (e.own.back() - host > 0.2) own = torch::minimum(own, host + f);
    return own;
  }

  Tensor predict(const Example& e, bool profiled) {
    Tensor device = log_device(e);
    Tensor host;
    if (profiled) {
      const double least = std::min(e.own.back(), e.alone.back());
      const Tensor theta = calibrated(e, device, least);
      device = device + theta[0] + theta[1] * (e.log_s + 1);
      host = own_host(e, least);
    } else {
      host = torch::logsumexp(e.types.matmul(issue) + e.count, 0) + curve();
    }
    return slower(device.index_select(0, e.pair), host.index_select(0, e.quota));
  }

  const std::vector<Share> quotas;
  torch::nn::Linear first, second, last, direct;
  Tensor throttle, tail, sharpness, stiffness, issue;
  Tensor mean, deviation;
};

std::vector<double> numbers(const Tensor& t) {
  const Tensor flat = t.detach().to(torch::kDouble).contiguous().flatten();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

// The standardisation of the features becomes part of the first layers.
predict::WorkWeights weights_of(const Formula& f) {
  const torch::NoGradGuard no_gradients;
  predict::WorkWeights w;
  const Tensor scaled = f.first->weight / f.deviation, straight = f.direct->weight / f.deviation;
  w.network = {
      .inputs = kOperatorFeatures,
      .hidden = static_cast<size_t>(f.second->weight.size(0)),
      .first = numbers(scaled.t()),
      .first_bias = numbers(f.first->bias - scaled.matmul(f.mean)),
      .second = numbers(f.second->weight.t()),
      .second_bias = numbers(f.second->bias),
      .last = numbers(f.last->weight),
      .direct = numbers(straight),
      .bias = (f.last->bias + f.direct->bias - straight.matmul(f.mean)).item<double>() - 3.5};
  w.issue = numbers(f.issue);
  const std::vector<double> curve = numbers(f.curve());
  for (size_t i = 0; i < curve.size(); ++i) w.throttle.push_back({f.quotas[i], curve[i]});
  w.tail = f.tail.item<double>();
  w.sharpness = std::exp(f.sharpness.item<double>());
  w.stiffness = {std::exp(f.stiffness[0].item<double>()), std::exp(f.stiffness[1].item<double>())};
  return w;
}

Example example_of(const trace::LatencyData& data, const trace::LatencyModel& model,
                   const std::vector<Share>& quotas, const Chosen& chosen) {
  Example e;
  std::map<std::pair<int, Share>, int64_t> pairs;
  const auto pair_of = [&](int batch, Share sm) {
    return pairs.try_emplace({batch, sm}, static_cast<int64_t>(pairs.size())).first->second;
  };
  const predict::ShortProfile profile = profile_of(data, model);
  for (const predict::TimeAt& t : profile.alone) {
    e.alone.push_back(std::log(t.ms));
    e.alone_s.push_back(log_of(t.share));
    e.alone_pair.push_back(pair_of(1, t.share));
  }
  if (has_profile(data, model)) {
    for (const predict::TimeAt& t : profile.quotas) e.own.push_back(std::log(t.ms));
    e.own_pair = pair_of(kProfiledBatch, kWhole);
  }
  std::vector<int64_t> pair, quota;
  std::vector<double> label;
  for (const trace::LatencyPoint& p : model.points) {
    if (is_profiled(data, p.at) || !chosen(model, p)) continue;
    pair.push_back(pair_of(p.at.batch, p.at.sm));
    quota.push_back(std::find(quotas.begin(), quotas.end(), p.at.quota) - quotas.begin());
    label.push_back(std::log(p.ms));
  }
  e.pair = torch::tensor(pair, torch::kLong);
  e.quota = torch::tensor(quota, torch::kLong);
  e.label = row(label);

  const std::vector<predict::CountedOperator> operators = predict::counted(model.graph);
  const auto count = static_cast<int64_t>(operators.size());
  e.features = torch::zeros({static_cast<int64_t>(pairs.size()), count, kFeatures}, torch::kDouble);
  e.log_s = torch::zeros({static_cast<int64_t>(pairs.size())}, torch::kDouble);
  e.count = torch::zeros({count}, torch::kDouble);
  auto features = e.features.accessor<double, 3>();
  for (const auto& [of, index] : pairs) {
    e.log_s[index] = log_of(of.second);
    for (int64_t i = 0; i < count; ++i) {
      const predict::FeatureVector x =
          operators[static_cast<size_t>(i)].features.at(log_of(of.second), std::log(of.first));
      for (int64_t j = 0; j < kFeatures; ++j) features[index][i][j] = x[static_cast<size_t>(j)];
    }
  }
  for (int64_t i = 0; i < count; ++i)
    e.count[i] = std::log(operators[static_cast<size_t>(i)].count);
  e.types = e.features[0].narrow(1, 0, kTypes).clone();
  return e;
}

// Types stay 0 or 1; the other features get mean 0 and deviation 1, or remain what they all are.
void standardise(Formula& f, const std::vector<Example>& examples) {
  std::vector<Tensor> all;
  for (const Example& e : examples) all.push_back(e.features.flatten(0, 1));
  const Tensor rows = torch::cat(all);
  f.mean = rows.mean(0);
  f.deviation = rows.std(0);
  f.deviation = torch::where(f.deviation < 1e-3, torch::ones_like(f.deviation), f.deviation);
  f.mean.narrow(0, 0, kTypes).zero_();
  f.deviation.narrow(0, 0, kTypes).fill_(1);
}

}  // namespace

predict::WorkWeights train(const trace::LatencyData& data, const Chosen& chosen,
                           const TrainingSettings& settings,
                           const std::function<void(int, double)>& progress) {
  torch::manual_seed(settings.seed);
  torch::set_num_threads(1);
  std::set<Share> all(std::begin(kProfiledQuotas), std::end(kProfiledQuotas));
  for (const trace::LatencyModel& m : data.models)
    for (const trace::LatencyPoint& p : m.points) all.insert(p.at.quota);
  const std::vector<Share> quotas(all.begin(), all.end());
  std::vector<Example> examples;
  for (const trace::LatencyModel& m : data.models) {
    Example e = example_of(data, m, quotas, chosen);
    if (e.label.numel() > 0) examples.push_back(std::move(e));
  }
  Formula formula(settings.hidden, quotas);
  standardise(formula, examples);

  torch::optim::AdamW optimizer(
      formula.parameters(), torch::optim::AdamWOptions(settings.rate).weight_decay(settings.decay));
  auto& options = static_cast<torch::optim::AdamWOptions&>(optimizer.param_groups()[0].options());
  Random random(settings.seed);
  const auto smooth = torch::nn::functional::SmoothL1LossFuncOptions().beta(kSmooth);
  for (int pass = 0; pass < settings.passes; ++pass) {
    options.lr(rate_at(static_cast<double>(pass) / settings.passes, settings.rate));
    for (size_t i = examples.size(); i > 1; --i)
      std::swap(examples[i - 1], examples[random.below(i)]);
    const size_t some = std::min(examples.size(), static_cast<size_t>(settings.models_a_pass));
    optimizer.zero_grad();
    double sum = 0;
    for (size_t i = 0; i < some; ++i) {
      const Example& e = examples[i];
      const bool has_profile = !e.alone.empty() && !e.own.empty();
      Tensor loss = settings.unprofiled * torch::nn::functional::smooth_l1_loss(
                                              formula.predict(e, false), e.label, smooth);
      if (has_profile) {
        const Tensor profiled =
            torch::nn::functional::smooth_l1_loss(formula.predict(e, true), e.label, smooth);
        sum += profiled.item<double>();
        loss = loss + profiled;
      }
      (loss / static_cast<double>(some)).backward();
    }
    torch::nn::utils::clip_grad_norm_(formula.parameters(), 1.0);
    optimizer.step();
    if (progress) progress(pass + 1, sum / static_cast<double>(some));
  }
  return weights_of(formula);
}

}  // namespace sluice::learn
