#include "learn/weights_json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "wire/json/json.h"

namespace sluice::learn {
namespace {

using nlohmann::json;
using predict::WorkWeights;

constexpr double kMost = 1e6;

double rounded(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return std::strtod(text, nullptr);
}

json rounded(const std::vector<double>& numbers) {
  json out = json::array();
  for (const double x : numbers) out.push_back(rounded(x));
  return out;
}

std::vector<double> numbers_in(wire::Fields& f, const char* key, size_t count) {
  std::vector<double> out;
  for (const json& x : f.list(key)) {
    if (!x.is_number() || !(std::abs(x.get<double>()) <= kMost)) {
      f.fail(key, x.dump().substr(0, 40) + " is no number between ±1000000");
      break;
    }
    out.push_back(x.get<double>());
  }
  if (out.size() != count)
    f.fail(key, "has " + std::to_string(out.size()) + " numbers; " + std::to_string(count) +
                    " are needed");
  return out;
}

std::vector<predict::TimeAt> throttle_in(wire::Fields& f) {
  std::vector<predict::TimeAt> out;
  for (const json& item : f.list("throttle")) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_number_integer() ||
        !item[1].is_number()) {
      f.fail("throttle", item.dump().substr(0, 40) + " is not [permille, factor's logarithm]");
      return out;
    }
    const Share share{item[0].get<int>()};
    if (share <= kNone || share > kWhole || (!out.empty() && share <= out.back().share))
      f.fail("throttle", "quotas must ascend from 1 to 1000");
    out.push_back({share, item[1].get<double>()});
  }
  if (out.size() < 2 || out.back().share != kWhole) f.fail("throttle", "must end with the whole");
  return out;
}

predict::Network network_in(wire::Fields& f) {
  const auto hidden = static_cast<size_t>(f.integer("hidden", 0, 1, 1024));
  constexpr size_t kInputs = predict::kOperatorFeatures;
  return {.inputs = kInputs,
          .hidden = hidden,
          .first = numbers_in(f, "first", hidden * kInputs),
          .first_bias = numbers_in(f, "first_bias", hidden),
          .second = numbers_in(f, "second", hidden * hidden),
          .second_bias = numbers_in(f, "second_bias", hidden),
          .last = numbers_in(f, "last", hidden),
          .direct = numbers_in(f, "direct", kInputs),
          .bias = f.number("bias", 0, -kMost, kMost)};
}

}  // namespace

json to_json(const Learned& learned) {
  const WorkWeights& w = learned.weights;
  json throttle = json::array();
  for (const predict::TimeAt& t : w.throttle) throttle.push_back({t.share.permille, rounded(t.ms)});
  json out{{"device", learned.from.device},
           {"data", learned.from.data},
           {"models", learned.from.models},
           {"points", learned.from.points},
           {"seed", learned.from.seed},
           {"unseen_error", rounded(learned.from.unseen_error)},
           {"issue", rounded(w.issue)},
           {"throttle", throttle},
           {"tail", rounded(w.tail)},
           {"sharpness", rounded(w.sharpness)},
           {"stiffness", {rounded(w.stiffness[0]), rounded(w.stiffness[1])}}};
  if (!w.rates.empty()) {
    out["rates"] = rounded(w.rates);
    return out;
  }
  const predict::Network& n = w.network;
  out.update({{"hidden", n.hidden},
              {"first", rounded(n.first)},
              {"first_bias", rounded(n.first_bias)},
              {"second", rounded(n.second)},
              {"second_bias", rounded(n.second_bias)},
              {"last", rounded(n.last)},
              {"direct", rounded(n.direct)},
              {"bias", rounded(n.bias)}});
  return out;
}

Result<Learned> learned_from(const json& j) {
  wire::Fields f(j, "weights");
  Learned learned;
  learned.from = {.device = f.text("device"),
                  .data = f.text("data"),
                  .models = static_cast<int>(f.integer("models", 0, 0, 1'000'000)),
                  .points = f.integer("points", 0, 0, 1'000'000'000),
                  .seed = static_cast<uint64_t>(f.integer("seed", 0, 0, INT64_MAX)),
                  .unseen_error = f.number("unseen_error", 0.4, 0.001, 10)};
  WorkWeights& w = learned.weights;
  if (j.is_object() && j.contains("rates"))
    w.rates = numbers_in(f, "rates", predict::kWorkKinds);
  else
    w.network = network_in(f);
  w.issue = numbers_in(f, "issue", std::size(kOperatorTypes));
  w.throttle = throttle_in(f);
  w.tail = f.number("tail", 1, -100, 100);
  w.sharpness = f.number("sharpness", 10, 0.1, 1000);
  const std::vector<double> stiffness = numbers_in(f, "stiffness", 2);
  if (stiffness.size() == 2) {
    w.stiffness = {stiffness[0], stiffness[1]};
    if (std::min(stiffness[0], stiffness[1]) <= 0) f.fail("stiffness", "must be positive");
  }
  return f.finish(learned);
}

}  // namespace sluice::learn
