// A function's specification as JSON, in the store's form: one flat object, whose "kind" is
// "inference" or "training". Free functions; any thread.
#pragma once

#include <map>
#include <string>

#include "model/function.h"
#include "wire/json/json.h"

namespace sluice::wire {

nlohmann::json to_json(const FunctionSpec&);
// Of a program: {"NAME": "text", "OTHER": {"file": "a secret's name"}}.
nlohmann::json to_json(const std::map<std::string, EnvValue>&);
Result<FunctionSpec> function_spec_from(const nlohmann::json&);

}  // namespace sluice::wire
