// KServe's form of a function that is a program: spec.predictor.containers, of one container. It
// yields what spec.server does, and is written in that form.
#pragma once

#include "control/spec/yaml_fields.h"
#include "model/function.h"

namespace sluice::control {

// Reads `predictor` if it stands in `spec`. Refuses, with what Sluice has in its place, what a
// container has beyond a program. REQUIRES: an inference function.
void read_predictor(Fields& spec, FunctionSpec& out, Source& source, Problems& problems);

}  // namespace sluice::control
