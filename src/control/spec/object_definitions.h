// The definitions of our kinds of objects for Kubernetes' API server (apiextensions.k8s.io/v1),
// made of the schema of function files: InferenceFunction, TrainingFunction, and the platform's own
// FunctionRevision and FunctionRoute. Nothing in them rests on CEL, which 1.20 ignores. Pure.
#pragma once

#include <string>
#include <vector>

#include "control/spec/function_schema.h"

namespace sluice::control {

std::vector<Schema> object_definitions();
// Returns them as one file of YAML documents.
std::string object_definitions_yaml();

// Returns a schema in the form that an API server takes. A value of several types has none of them
// there, and bounds that hold for each; one that is a whole number or a text has a form of its own.
Schema structural(const Schema& schema);

}  // namespace sluice::control
