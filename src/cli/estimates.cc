#include "cli/estimates.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/words.h"
#include "cli/inspection.h"
#include "cli/table.h"
#include "control/local/model_check.h"
#include "control/local/model_copies.h"
#include "control/profiles.h"
#include "control/spec/function_file.h"
#include "learn/builtin.h"
#include "model/server_kind.h"
#include "predict/work_model.h"
#include "wire/json/json.h"
#include "wire/json/model_description.h"
#include "wire/json/operator_graph_json.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

struct KnownType {
  const learn::Learned* learned;
  Share size;  // of a CPU device, against the measured one; none: a GPU
  DeviceKind kind;
};

// CPU devices were measured with a part of a core. Up to a whole one the size is a share of that.
// What several cores do for a model is not known: they count as one, which is the slower side.
std::optional<KnownType> known_type(const Device& device) {
  constexpr int kMeasured = 800, kCore = 1000;  // millicores
  const bool is_cpu = device.kind == DeviceKind::kCpu;
  const learn::Learned* learned =
      learn::builtin_weights(is_cpu ? "cpu/800m" : type_of(device).name);
  if (learned == nullptr) return std::nullopt;
  const Share size = {std::min(device.millicores, kCore) * 1000 / kMeasured};
  return KnownType{learned, is_cpu ? size : kNone, device.kind};
}

// The platform's types of devices that there are weights of.
Result<std::map<DeviceType, KnownType>> known_types(const Session& session) {
  SLUICE_ASSIGN(rows, session.api(verb::get, "/v1/devices"));
  std::map<DeviceType, KnownType> types;
  for (const json& row : rows) {
    SLUICE_ASSIGN(device, wire::device_from(row));
    if (const auto known = known_type(device)) types.emplace(type_of(device), *known);
  }
  return types;
}

// What is stored, by model and type; both names of a model count.
Result<std::set<std::pair<std::string, DeviceType>>> stored_profiles(const Session& session) {
  SLUICE_ASSIGN(rows, session.api(verb::get, "/v1/profiles"));
  std::set<std::pair<std::string, DeviceType>> stored;
  for (const json& row : rows) {
    SLUICE_ASSIGN(profile, control::profile_from(row));
    stored.emplace(profile.name(), profile.device);
  }
  return stored;
}

// The functions whose model can be inspected and identified; the platform will say what is wrong
// with the others.
std::vector<FunctionSpec> identified_functions(const std::vector<FunctionFile>& files) {
  std::vector<FunctionSpec> found;
  const control::ModelCopies copies("");
  for (const FunctionFile& file : files) {
    auto parsed = control::parse_functions(file.text,
                                           {.file = file.name,
                                            .folder = file.folder,
                                            .home = home(),
                                            .models = control::folder_of_models(home())},
                                           control::check_model);
    if (!parsed.ok()) continue;
    for (FunctionSpec& spec : *parsed)
      if (spec.is_inference() && kind_of(spec.model()).described &&
          copies.identify(spec.inference().model).ok())
        found.push_back(std::move(spec));
  }
  return found;
}

// A larger one would hold up `apply`, and take the memory that instances are to have.
constexpr uintmax_t kLargest = uintmax_t{2} << 30;

Result<OperatorGraph> operators_of(const ModelSpec& model) {
  std::error_code fault;
  if (const uintmax_t size = std::filesystem::file_size(model.path, fault);
      !fault && size > kLargest)
    return Error{ErrorKind::kInvalid, "the model has more than 2 GiB"};
  json inputs = json::array();
  for (const TensorSpec& t : model.inputs) inputs.push_back(wire::to_json(t));
  SLUICE_ASSIGN(found, inspect_model(model.path, inputs, 1));
  if (!found.contains("graph"))
    return Error{ErrorKind::kInvalid, found.value("unstated", "its operators are unknown")};
  SLUICE_ASSIGN(graph, wire::operator_graph_from(found["graph"]));
  if (!graph.uncounted.empty())
    return Error{ErrorKind::kInvalid, "the work of " + listed(graph.uncounted) + " is not known"};
  return graph;
}

std::vector<int> batches_up_to(int most) {
  std::vector<int> batches;
  for (int b = 1; b < most; b *= 2) batches.push_back(b);
  batches.push_back(std::max(most, 1));
  return batches;
}

// Of each model that the function has on some types, which it may use and where nothing is known of
// that model: the function with it, and these types.
std::vector<std::pair<FunctionSpec, std::map<DeviceType, KnownType>>> unknown_of(
    const FunctionSpec& spec, const std::map<DeviceType, KnownType>& types,
    const std::set<std::pair<std::string, DeviceType>>& stored) {
  std::vector<std::pair<FunctionSpec, std::map<DeviceType, KnownType>>> found;
  for (const auto& [type, known] : types) {
    if (!spec.runs_on(known.kind) || !spec.may_use(type)) continue;
    FunctionSpec there = spec.on(type);
    ModelSpec& model = there.inference().model;
    if (!control::ModelCopies("").identify(model).ok()) continue;
    if (stored.contains({model.content, type}) || stored.contains({model.path, type}) ||
        stored.contains({model.path, {}}))
      continue;
    const auto same = std::ranges::find_if(
        found, [&](const auto& other) { return other.first.model() == model; });
    if (same == found.end())
      found.emplace_back(std::move(there), std::map<DeviceType, KnownType>{{type, known}});
    else
      same->second.emplace(type, known);
  }
  return found;
}

// One model on the types where nothing is known of it.
Result<void> estimate_model(const Session& session, const FunctionSpec& spec,
                            const std::map<DeviceType, KnownType>& types) {
  const ModelSpec& model = spec.inference().model;
  SLUICE_ASSIGN(graph, operators_of(model));
  const int most = std::max(spec.inference().batching.max_size, 1);
  for (const auto& [type, known] : types) {
    const control::Profile profile{
        .model = model.path,
        .content = model.content,
        .device = type,
        .function = spec.name,
        .memory = 0,
        .points = estimated_points(*known.learned, graph, most, known.size),
        .estimated = known.learned->from.unseen_error,
        .conditions = "weights of " + known.learned->from.device + ": " + known.learned->from.data,
        .measured_at = unix_now()};
    const auto put = session.api(verb::put, "/v1/profiles", control::to_json(profile));
    if (!put.ok()) return put.error();
    if (session.json()) continue;
    std::cout << to_string(spec.name) << ": estimated on " << type.name << " from its "
              << graph.operators.size()
              << " operators: " << fixed(millis(profile.points.front().median), 1)
              << " ms alone, on average off by " << fixed(100 * profile.estimated, 0) << "%"
              << (!profile.in_time_alone(spec.inference().slo.latency)
                      ? ", too long for the objective, so it does not count"
                      : "")
              << "; `sluice profile` measures it\n";
  }
  return {};
}

Result<void> estimate_all(const Session& session, const std::vector<FunctionFile>& files) {
  if (!can_inspect()) return {};
  SLUICE_ASSIGN(types, known_types(session));
  if (types.empty()) return {};
  SLUICE_ASSIGN(stored, stored_profiles(session));
  for (const FunctionSpec& spec : identified_functions(files)) {
    for (const auto& [there, unknown] : unknown_of(spec, types, stored)) {
      const auto done = estimate_model(session, there, unknown);
      if (!done.ok())
        std::cerr << "sluice: " << to_string(spec.name)
                  << ": its times cannot be estimated: " << done.error().message
                  << ". `sluice profile` measures them.\n";
    }
  }
  return {};
}

}  // namespace

std::vector<MeasuredPoint> estimated_points(const learn::Learned& learned,
                                            const OperatorGraph& graph, int most, Share size) {
  constexpr int kShares[] = {1000, 900, 800, 700, 600, 500, 400, 300, 200, 100};
  const bool is_cpu = size > kNone;
  const predict::WorkEstimate estimate(learned.weights, graph);
  std::vector<Configuration> at;
  for (const int batch : batches_up_to(most))
    for (const int sm : kShares)
      for (const int quota : kShares)
        if (!is_cpu || sm == kWhole.permille) at.push_back({batch, Share{sm}, Share{quota}});
  std::vector<Configuration> asked = at;
  if (is_cpu)
    for (Configuration& c : asked) c.sm = size;
  const std::vector<double> ms = estimate.ms(asked);
  std::vector<MeasuredPoint> points;
  for (size_t i = 0; i < at.size(); ++i) {
    // Rounded, so that every machine decides alike.
    const Nanos median = Micros(std::max<int64_t>(std::llround(ms[i] * 1000), 1));
    points.push_back({.at = at[i],
                      .median = median,
                      .p95 = median,
                      .throughput = at[i].batch / seconds(median)});
  }
  return points;
}

void estimate_models(const Session& session, const std::vector<FunctionFile>& files) {
  if (const auto done = estimate_all(session, files); !done.ok())
    std::cerr << "sluice: no estimates: " << done.error().message << "\n";
}

}  // namespace sluice::cli
