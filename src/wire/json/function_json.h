// A function's specification as JSON, in the store's form: one flat object, whose "kind" is
// "inference" or "training". Free functions; any thread.
#pragma once

#include "model/function.h"
#include "wire/json/json.h"

namespace sluice::wire {

nlohmann::json to_json(const FunctionSpec&);
Result<FunctionSpec> function_spec_from(const nlohmann::json&);

}  // namespace sluice::wire
