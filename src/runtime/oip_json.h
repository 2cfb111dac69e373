// A tensor's elements as JSON: "data" to bytes and back. Used by the two halves of the codec alone.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>

#include "runtime/tensor.h"

namespace sluice::runtime {

// Appends to tensor.data. Flat, or nested exactly as tensor.shape says; every element in the
// datatype's range. REQUIRES: element_count(tensor.shape) is ok.
Result<void> read_json_data(simdjson::dom::element data, Tensor& tensor);

// Turns each bare NaN, Infinity and -Infinity into an object, such as {"NaN":0}: read_json_data
// takes that for a number of FP32 and FP64, and no other reader takes an object for a text or a
// number. Returns nothing when there is none outside of texts.
std::optional<std::string> mark_non_finite(std::string_view json);

// Appends "[…]", flat; NaN and infinities bare.
Result<void> write_json_data(const Tensor& tensor, std::string& out);

// Appends a quoted, escaped string; what is not UTF-8 is replaced.
void write_json_text(std::string_view text, std::string& out);

}  // namespace sluice::runtime
