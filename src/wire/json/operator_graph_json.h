// OperatorGraph as JSON (docs/formats/operator-graph.md).
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "model/operator_graph.h"

namespace sluice::wire {

nlohmann::json to_json(const OperatorGraph&);

// Returns kInvalid with the operator's index and its field: a type that is not in kOperatorTypes, a
// negative number, an edge that does not come from an earlier operator, no operator at all.
Result<OperatorGraph> operator_graph_from(const nlohmann::json&);

}  // namespace sluice::wire
