// A tensor's elements as JSON: "data" to bytes and back. Used only by the two halves of the codec.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>

#include "runtime/tensor.h"

namespace sluice::runtime {

// Appends to tensor.data. Takes it flat, or nested exactly as tensor.shape says, or, as Triton
// does, nested deeper than that in any way; with every element in the datatype's range. REQUIRES:
// element_count(tensor.shape) is ok.
Result<void> read_json_data(simdjson::dom::element data, Tensor& tensor);

// Turns each bare NaN, Infinity and -Infinity into an object, such as {"NaN":0}: read_json_data
// takes it for a number of FP32 and FP64, and no other reader takes an object for a text or a
// number. Returns nothing if there is none outside of strings.
std::optional<std::string> mark_non_finite(std::string_view json);

// Turns each integer that 64 bits do not hold into a float, "N.0": FP32 and FP64 can be so large.
// Returns nothing if there is none outside of strings.
std::optional<std::string> widen_integers(std::string_view json);

// Appends "[…]", flat; NaN and infinities bare.
Result<void> write_json_data(const Tensor& tensor, std::string& out);

// Appends a quoted, escaped string; replaces invalid UTF-8.
void write_json_text(std::string_view text, std::string& out);

}  // namespace sluice::runtime
