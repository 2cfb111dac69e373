// The JSON schema of function files, made of the table of fields (model/function_fields.h) and of
// what stands beside it. It accepts every file that parse_functions() accepts, and refuses unknown
// fields, wrong types, single values out of their bounds and words that are none. What takes more
// than one field to judge, or a file system, is left to parse_functions(). Pure.
#pragma once

#include <nlohmann/json.hpp>

namespace sluice::control {

using Schema = nlohmann::ordered_json;

// Of `spec`. A field that a file may write as a number or as a text has a list of types.
Schema inference_schema();
Schema training_schema();

// Of a name, and of a whole document of either kind, for editors.
Schema name_schema();
Schema file_schema();

}  // namespace sluice::control
