#include "wire/json/operator_graph_json.h"

#include <algorithm>
#include <iterator>

#include "wire/json/json.h"

namespace sluice::wire {
namespace {

using nlohmann::json;

constexpr int64_t kMostWork = 1'000'000'000'000'000'000;
constexpr size_t kMostOperators = 100'000, kMostDimensions = 8;

std::vector<int64_t> shape_in(Fields& f, const char* key) {
  std::vector<int64_t> shape;
  for (const json& d : f.list(key)) {
    if (!d.is_number_integer() || d < 0 || shape.size() == kMostDimensions) {
      f.fail(key, "must be at most " + std::to_string(kMostDimensions) + " whole numbers ≥ 0");
      break;
    }
    shape.push_back(d.get<int64_t>());
  }
  return shape;
}

Result<Operator> operator_from(const json& j, int index) {
  Fields f(j, "operator " + std::to_string(index));
  Operator o;
  o.type = f.text("type", "other");
  if (std::find(std::begin(kOperatorTypes), std::end(kOperatorTypes), o.type) ==
      std::end(kOperatorTypes))
    f.fail("type", "'" + o.type + "' is none of the known types; 'other' is");
  o.in = shape_in(f, "in");
  o.out = shape_in(f, "out");
  o.macs = f.integer("macs", 0, 0, kMostWork);
  o.parameters = f.integer("parameters", 0, 0, kMostWork);
  o.kernel = static_cast<int>(f.integer("kernel", 0, 0, 1'000'000));
  o.stride = static_cast<int>(f.integer("stride", 0, 0, 1'000'000));
  o.groups = static_cast<int>(f.integer("groups", 0, 0, 1'000'000));
  for (const json& from : f.list("from")) {
    if (!from.is_number_integer() || from < 0 || from >= index ||
        (!o.from.empty() && from <= o.from.back())) {
      f.fail("from", from.dump() + " must be an earlier operator; in ascending order");
      break;
    }
    o.from.push_back(from.get<int>());
  }
  return f.finish(o);
}

}  // namespace

json to_json(const OperatorGraph& graph) {
  json operators = json::array();
  for (const Operator& o : graph.operators) {
    json j{{"type", o.type}, {"in", o.in}, {"out", o.out}, {"from", o.from}};
    if (o.macs > 0) j["macs"] = o.macs;
    if (o.parameters > 0) j["parameters"] = o.parameters;
    if (o.kernel > 0) j["kernel"] = o.kernel;
    if (o.stride > 0) j["stride"] = o.stride;
    if (o.groups > 0) j["groups"] = o.groups;
    operators.push_back(std::move(j));
  }
  json j{{"batch", graph.batch}, {"operators", std::move(operators)}};
  if (!graph.uncounted.empty()) j["uncounted"] = graph.uncounted;
  return j;
}

Result<OperatorGraph> operator_graph_from(const json& j) {
  Fields f(j, "operator graph");
  OperatorGraph graph;
  graph.batch = static_cast<int>(f.integer("batch", 1, 1, 1024));
  const std::vector<json> items = f.list("operators");
  for (const json& name : f.list("uncounted")) {
    if (name.is_string())
      graph.uncounted.push_back(name);
    else
      f.fail("uncounted", name.dump() + " must be a name");
  }
  if (items.empty() || items.size() > kMostOperators)
    f.fail("operators", "must be 1 to " + std::to_string(kMostOperators));
  SLUICE_TRY(f.finish(0));
  for (const json& item : items) {
    SLUICE_ASSIGN(one, operator_from(item, static_cast<int>(graph.operators.size())));
    graph.operators.push_back(std::move(one));
  }
  return graph;
}

}  // namespace sluice::wire
