// Inflates compressed request bodies: gzip (RFC 1952) and deflate (RFC 1950). Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::runtime {

// Names of a Content-Encoding, in any case (RFC 9110 §8.4.1).
bool is_identity(std::string_view encoding);  // there is nothing to inflate
bool inflatable(std::string_view encoding);

// Returns the inflated body. Returns kInvalid if the body is broken or cut short; kExhausted if it
// is larger than `most` bytes, found before more than that is held.
// REQUIRES: inflatable(encoding).
Result<std::string> inflate_body(std::string_view body, std::string_view encoding, size_t most);

}  // namespace sluice::runtime
