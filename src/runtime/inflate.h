// Bodies that a client compressed: gzip (RFC 1952) and deflate (RFC 1950). Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::runtime {

// Whether a Content-Encoding of that name is understood; "identity" is none to inflate.
bool inflatable(std::string_view encoding);

// The body as it was before it was compressed. kInvalid when it is broken or cut short;
// kExhausted when it is larger than `most` bytes, found before more than that is held.
// REQUIRES: inflatable(encoding).
Result<std::string> inflate_body(std::string_view body, std::string_view encoding, size_t most);

}  // namespace sluice::runtime
