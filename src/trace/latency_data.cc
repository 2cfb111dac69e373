#include "trace/latency_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "base/words.h"
#include "trace/fields.h"
#include "trace/text_file.h"

namespace sluice::trace {
namespace {

namespace fs = std::filesystem;

constexpr double kMostWork = 1e18, kMostNodes = 1e6;

using Fields = std::vector<std::string_view>;
using TakeRow = std::function<Result<void>(const TextFile&, const Fields&)>;

// The path, or the same gzipped; empty if there is neither.
std::string found(const std::string& folder, const std::string& name) {
  for (const char* end : {"", ".gz"})
    if (fs::exists(fs::path(folder) / (name + end))) return fs::path(folder) / (name + end);
  return "";
}

Result<std::string> required(const std::string& folder, const std::string& name) {
  std::string path = found(folder, name);
  if (path.empty())
    return Error{ErrorKind::kNotFound, folder + ": has neither " + name + " nor " + name + ".gz"};
  return path;
}

// Calls `take` with the named columns' fields of each row, in the order of the names.
Result<void> each_row(const std::string& path, const std::vector<std::string>& columns,
                      const TakeRow& take) {
  SLUICE_ASSIGN(file, TextFile::open(path));
  SLUICE_ASSIGN(header, Header::read(file));
  std::vector<size_t> places;
  for (const std::string& column : columns) {
    SLUICE_ASSIGN(place, header.column(file, column));
    places.push_back(place);
  }
  Fields chosen(columns.size());
  for (;;) {
    SLUICE_ASSIGN(line, file.next_with_content());
    if (!line) return {};
    SLUICE_ASSIGN(fields, header.fields(file, *line));
    for (size_t i = 0; i < places.size(); ++i) chosen[i] = fields[places[i]];
    SLUICE_TRY(take(file, chosen));
  }
}

// An empty field is 0.
Result<double> perhaps_in(const TextFile& file, std::string_view column, std::string_view field,
                          double most) {
  if (field.empty()) return 0.0;
  return number_in(file, column, field, 0, most);
}

Result<Configuration> configuration_in(const TextFile& file, std::string_view batch,
                                       std::string_view sm, std::string_view quota) {
  SLUICE_ASSIGN(b, whole_in(file, "batch", batch, 1, kMostBatch));
  SLUICE_ASSIGN(s, number_in(file, "sm_pct", sm, 0.1, 100));
  SLUICE_ASSIGN(q, number_in(file, "quota_pct", quota, 0.1, 100));
  return Configuration{b, Share{static_cast<int>(std::lround(s * 10))},
                       Share{static_cast<int>(std::lround(q * 10))}};
}

// "1x64x55x55"; an empty text is a shape without dimensions.
Result<std::vector<int64_t>> shape_in(const TextFile& file, std::string_view column,
                                      std::string_view field) {
  std::vector<int64_t> shape;
  while (!field.empty()) {
    int64_t dimension = 0;
    const char* end = field.data() + field.size();
    const auto [next, fault] = std::from_chars(field.data(), end, dimension);
    if (fault != std::errc() || dimension < 0 || (next != end && *next != 'x'))
      return file.error(std::string(column) + ": '" + clipped(std::string(field), 40) +
                        "' is no shape, such as 1x3x224x224");
    shape.push_back(dimension);
    field.remove_prefix(std::min(field.size(), static_cast<size_t>(next - field.data()) + 1));
  }
  return shape;
}

std::string type_of_layer(std::string_view layer) {
  constexpr std::pair<std::string_view, std::string_view> kOther[] = {
      {"adaptive_avg_pool2d", "avg_pool2d"},
      {"relu6", "relu"},
      {"hardsigmoid", "sigmoid"},
      {"einsum", "matmul"},
      {"layer_scale", "mul"}};
  for (const auto& [ours, type] : kOther)
    if (layer == ours) return std::string(type);
  const auto known = std::find(std::begin(kOperatorTypes), std::end(kOperatorTypes), layer);
  return std::string(known == std::end(kOperatorTypes) ? "other" : layer);
}

// The operators of one model while they are read.
struct Nodes {
  struct Node {
    int order = 0, index = 0;
    Operator what;
    std::vector<double> ms;
  };
  std::vector<Node> nodes;
  std::set<std::pair<int, int>> edges;  // of node indices
};

class Reading {
 public:
  explicit Reading(std::string folder) : folder_(std::move(folder)) {}

  Result<LatencyData> read() {
    SLUICE_TRY(read_families());
    SLUICE_TRY(read_operators());
    SLUICE_TRY(read_edges());
    SLUICE_TRY(read_splits());
    SLUICE_TRY(read_points());
    LatencyData data{sms_, splits_, {}};
    for (auto& [name, model] : models_) {
      if (model.points.empty()) continue;
      if (nodes_[name].nodes.empty())
        return Error{ErrorKind::kInvalid, folder_ + ": " + name + " has no operators"};
      assemble(nodes_[name], model);
      data.models.push_back(std::move(model));
    }
    if (data.models.empty()) return Error{ErrorKind::kInvalid, folder_ + ": has no point"};
    return data;
  }

 private:
  Result<void> read_families() {
    SLUICE_ASSIGN(path, required(folder_, "graph_features.csv"));
    return each_row(path, {"model", "family"},
                    [&](const TextFile& file, const Fields& f) -> Result<void> {
                      LatencyModel& m = models_[std::string(f[0])];
                      if (!m.name.empty()) return file.error(m.name + " stands there twice");
                      m.name = f[0];
                      m.family = f[1];
                      return {};
                    });
  }

  // The columns of operators.csv that are times, by their percentage.
  Result<std::map<int, std::string>> times_of(const std::string& path) const {
    SLUICE_ASSIGN(file, TextFile::open(path));
    SLUICE_ASSIGN(line, file.next());
    std::map<int, std::string> times;
    std::string_view rest = line ? *line : std::string_view();
    while (!rest.empty()) {
      const std::string_view name = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      if (!name.starts_with("t_sm") || !name.ends_with("_ms")) continue;
      SLUICE_ASSIGN(percent, whole_in(file, name, name.substr(4, name.size() - 7), 1, 100));
      times[percent] = name;
    }
    return times;
  }

  Result<void> read_operators() {
    SLUICE_ASSIGN(path, required(folder_, "operators.csv"));
    SLUICE_ASSIGN(times, times_of(path));
    std::vector<std::string> columns = {"model",       "batch",        "node_index", "exec_order",
                                        "layer",       "kernel_h",     "stride_h",   "groups",
                                        "in_shape_b1", "out_shape_b1", "macs_b1",    "params"};
    for (const auto& [percent, column] : times) {
      sms_.push_back(Share{percent * 10});
      columns.push_back(column);
    }
    return each_row(path, columns, [&](const TextFile& file, const Fields& f) {
      return take_operator(file, f, columns);
    });
  }

  Result<void> take_operator(const TextFile& file, const Fields& f,
                             const std::vector<std::string>& columns) {
    // The times of larger batches are no part of a short profile; constants are never executed.
    if (f[1] != "1" || f[3].empty()) return {};
    Nodes::Node node;
    SLUICE_ASSIGN(index, whole_in(file, columns[2], f[2], 0, kMostNodes));
    SLUICE_ASSIGN(order, whole_in(file, columns[3], f[3], 0, kMostNodes));
    node.index = index;
    node.order = order;
    Operator& o = node.what;
    o.type = type_of_layer(f[4]);
    double numbers[5];
    for (size_t i = 0; i < 3; ++i) {
      SLUICE_ASSIGN(value, perhaps_in(file, columns[5 + i], f[5 + i], 1e6));
      numbers[i] = value;
    }
    for (size_t i = 3; i < 5; ++i) {
      SLUICE_ASSIGN(value, perhaps_in(file, columns[7 + i], f[7 + i], kMostWork));
      numbers[i] = value;
    }
    o.kernel = static_cast<int>(numbers[0]);
    o.stride = static_cast<int>(numbers[1]);
    o.groups = static_cast<int>(numbers[2]);
    o.macs = static_cast<int64_t>(numbers[3]);
    o.parameters = static_cast<int64_t>(numbers[4]);
    SLUICE_ASSIGN(in, shape_in(file, columns[8], f[8]));
    SLUICE_ASSIGN(out, shape_in(file, columns[9], f[9]));
    o.in = std::move(in);
    o.out = std::move(out);
    for (size_t i = 12; i < f.size(); ++i) {
      SLUICE_ASSIGN(ms, perhaps_in(file, columns[i], f[i], kLongestMs));
      node.ms.push_back(ms);
    }
    nodes_[std::string(f[0])].nodes.push_back(std::move(node));
    return {};
  }

  Result<void> read_edges() {
    const std::string path = found(folder_, "edges.csv");
    if (path.empty()) return {};
    return each_row(path, {"model", "src", "dst"},
                    [&](const TextFile& file, const Fields& f) -> Result<void> {
                      SLUICE_ASSIGN(from, whole_in(file, "src", f[1], 0, kMostNodes));
                      SLUICE_ASSIGN(to, whole_in(file, "dst", f[2], 0, kMostNodes));
                      nodes_[std::string(f[0])].edges.emplace(from, to);
                      return {};
                    });
  }

  Result<void> read_splits() {
    const std::string path = found(folder_, "split_seen.csv");
    if (path.empty()) return {};
    return each_row(path, {"model", "batch", "sm_pct", "quota_pct", "split"},
                    [&](const TextFile& file, const Fields& f) -> Result<void> {
                      SLUICE_ASSIGN(at, configuration_in(file, f[1], f[2], f[3]));
                      auto known = std::find(splits_.begin(), splits_.end(), f[4]);
                      if (known == splits_.end()) known = splits_.emplace(known, f[4]);
                      split_of_[std::string(f[0])][at] = static_cast<int>(known - splits_.begin());
                      return {};
                    });
  }

  Result<void> read_points() {
    SLUICE_ASSIGN(path, required(folder_, "latency_ms.csv"));
    std::map<std::string, std::map<Configuration, double>> points;
    SLUICE_TRY(each_row(
        path, {"model", "batch", "sm_pct", "quota_pct", "latency_ms"},
        [&](const TextFile& file, const Fields& f) -> Result<void> {
          const std::string model(f[0]);
          if (!models_.contains(model))
            return file.error("model: " + clipped(model, 60) + " is not in graph_features.csv");
          SLUICE_ASSIGN(at, configuration_in(file, f[1], f[2], f[3]));
          SLUICE_ASSIGN(ms, number_in(file, "latency_ms", f[4], 1e-6, kLongestMs));
          if (!points[model].emplace(at, ms).second)
            return file.error("this configuration of " + model + " stands there twice");
          return {};
        }));
    for (const auto& [model, all] : points) {
      const auto& splits = split_of_[model];
      for (const auto& [at, ms] : all) {
        const auto split = splits.find(at);
        models_[model].points.push_back({at, ms, split == splits.end() ? -1 : split->second});
      }
    }
    return {};
  }

  // Numbers the operators in their order, and their edges with them.
  static void assemble(Nodes& of, LatencyModel& model) {
    std::stable_sort(of.nodes.begin(), of.nodes.end(),
                     [](const Nodes::Node& a, const Nodes::Node& b) { return a.order < b.order; });
    std::map<int, int> place;
    for (Nodes::Node& n : of.nodes) {
      place[n.index] = static_cast<int>(model.graph.operators.size());
      model.graph.operators.push_back(std::move(n.what));
      model.operator_ms.push_back(std::move(n.ms));
    }
    for (const auto& [from, to] : of.edges) {
      const auto a = place.find(from), b = place.find(to);
      if (a == place.end() || b == place.end() || a->second >= b->second) continue;
      model.graph.operators[static_cast<size_t>(b->second)].from.push_back(a->second);
    }
    for (Operator& o : model.graph.operators) {
      std::sort(o.from.begin(), o.from.end());
      o.from.erase(std::unique(o.from.begin(), o.from.end()), o.from.end());
    }
  }

  const std::string folder_;
  std::map<std::string, LatencyModel> models_;
  std::map<std::string, Nodes> nodes_;
  std::map<std::string, std::map<Configuration, int>> split_of_;
  std::vector<std::string> splits_;
  std::vector<Share> sms_;
};

}  // namespace

Result<LatencyData> read_latency_data(const std::string& folder) {
  return Reading(folder).read();
}

}  // namespace sluice::trace
