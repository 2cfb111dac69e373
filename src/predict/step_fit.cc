#include "predict/step_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "predict/step_objective.h"

namespace sluice::predict {
namespace {

constexpr double kLeast = 1e-8, kMost = 1e9, kMostGamma = 10;
constexpr double kSlowerAcrossNodes = 1.1;  // unseen α_n, β_n ÷ α_r, β_r

struct Seen {
  bool batches = false;  // more than one
  bool one_node = false, several_nodes = false;
  bool one_node_more = false, several_nodes_more = false;  // with over two workers
};

Seen seen_in(std::span<const StepGroup> groups) {
  Seen seen;
  for (const StepGroup& g : groups) {
    seen.batches |= g.local != groups.front().local;
    if (!g.syncs()) continue;
    (g.nodes > 1 ? seen.several_nodes : seen.one_node) = true;
    if (g.more() > 0) (g.nodes > 1 ? seen.several_nodes_more : seen.one_node_more) = true;
  }
  return seen;
}

void fix(Box<kParameters>& box, Parameter p, double value) {
  box.low[p] = box.high[p] = value;
}

struct Mean {
  double sum = 0, n = 0;

  void add(double value, double weight) { sum += weight * value, n += weight; }
  double or_else(double other) const { return n > 0 ? sum / n : other; }
};

// A start near the data: half of T_grad is constant, and T_sync is what steps take beyond T_grad.
// Where no sample tells the two apart, each is half of the step.
Theta start_for(std::span<const StepGroup> groups) {
  Mean grad, per_sample, one_node, several_nodes;
  for (const StepGroup& g : groups) {
    const double step = std::exp(g.step.mean);
    const double computes = g.grad.n > 0 ? std::exp(g.grad.mean) : step / 2;
    grad.add(computes * g.speed, g.step.n);
    per_sample.add(computes * g.speed / g.local, g.step.n);
    if (g.syncs()) (g.nodes > 1 ? several_nodes : one_node).add(step - computes, g.step.n);
  }
  Theta x{};
  x[kAlphaC] = grad.or_else(0) / 2, x[kBetaC] = per_sample.or_else(0) / 2;
  x[kAlphaR] = one_node.or_else(kLeast), x[kAlphaN] = several_nodes.or_else(kLeast);
  x[kBetaR] = x[kAlphaR] / 50, x[kBetaN] = x[kAlphaN] / 50;
  return x;
}

// The bounds, with what was not seen fixed.
Box<kParameters> box_for(const Seen& seen, const Theta& start) {
  Box<kParameters> box;
  box.low.fill(kLeast), box.high.fill(kMost);
  box.low[kGamma] = 1, box.high[kGamma] = kMostGamma;
  if (!seen.batches) fix(box, kAlphaC, start[kAlphaC]);
  if (!seen.one_node) fix(box, kAlphaR, kLeast);
  if (!seen.one_node_more) fix(box, kBetaR, kLeast);
  if (!seen.several_nodes) fix(box, kAlphaN, kLeast);
  if (!seen.several_nodes_more) fix(box, kBetaN, kLeast);
  if (!seen.one_node && !seen.several_nodes) fix(box, kGamma, 1);
  return box;
}

}  // namespace

std::optional<StepModel> fit_step_model(std::span<const StepSample> samples) {
  const std::vector<StepGroup> groups = grouped(samples);
  if (groups.empty()) return std::nullopt;
  const Seen seen = seen_in(groups);
  Theta start = start_for(groups);
  const Box<kParameters> box = box_for(seen, start);
  const StepObjective objective(groups);
  std::optional<Least<kParameters>> best;
  // From a larger γ a short T_sync has no effect on the step, and the fit loses it.
  for (const double gamma : {1.1, 1.5}) {
    start[kGamma] = gamma;
    const auto found = minimise(objective, start, box);
    if (!best || found.value < best->value) best = found;
  }
  const Theta& x = best->at;
  StepModel m{x[kAlphaC], x[kBetaC], x[kAlphaR], x[kBetaR], x[kAlphaN], x[kBetaN], x[kGamma]};
  if (!seen.several_nodes) m.alpha_n = std::max(m.alpha_n, kSlowerAcrossNodes * m.alpha_r);
  if (!seen.several_nodes_more) m.beta_n = std::max(m.beta_n, kSlowerAcrossNodes * m.beta_r);
  return m;
}

}  // namespace sluice::predict
