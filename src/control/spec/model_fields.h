// A function's model in its file: spec.model, and spec.variants beside or in place of it.
#pragma once

#include <string>

#include "control/spec/function_file.h"
#include "control/spec/yaml_fields.h"
#include "model/function.h"

namespace sluice::control {

// Returns the path with `~`, `file://`, /models and what is relative replaced as the context says;
// a URL as it is.
std::string absolute(std::string path, const FileContext& context);
// Complains of a path on the user's own machine, if the file is for a cluster.
void check_reachable(Fields& f, const std::string& key, const std::string& path,
                     const FileContext& context);

void read_model(Fields& f, InferenceSpec& s, const FileContext& context, Source& source,
                Problems& problems);

// Reads the variants that the function's quantization and batch choose; a model beside them is for
// all other types. REQUIRES: the function's other fields are read.
void read_variants(Fields& f, InferenceSpec& s, const FileContext& context, Source& source,
                   Problems& problems);

// A variant that cannot be served keeps the function from its type's devices; one at least can be.
void check_variants(InferenceSpec& s, const ModelCheck& check_model, const Source& source,
                    Problems& problems);

// The file's own largest batch is the function's, unless it states one.
void bound_batch(InferenceSpec& s, const Source& source, Problems& problems);

}  // namespace sluice::control
