// The schemas of values and parts that function_schema.h puts together. Pure.
#pragma once

#include <string_view>

#include "control/spec/function_schema.h"

namespace sluice::control {

// No other properties are allowed.
Schema object_schema(Schema properties);
void require(Schema& object, std::string_view key);
// Returns the schema with the meaning of the field in other_fields(). REQUIRES: it is there.
Schema with_meaning(std::string_view field, Schema schema);

Schema duration_schema(bool may_be_zero);
Schema memory_schema();
Schema share_schema();
Schema words_schema();
Schema variables_schema();

Schema model_schema();
Schema variants_schema();
Schema policy_schema();
Schema slice_schema();
Schema predictor_schema();

}  // namespace sluice::control
