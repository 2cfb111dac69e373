// Quantities as people write them in function files and on the command line, and back:
// durations ("150ms", "1.5s", "2m"), shares ("20%", 0.2), memory ("512Mi", "2G"). Every error says
// what is allowed. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "model/slice.h"

namespace sluice {

// ns, us, ms, s, m, h. A unit must stand, but with 0.
Result<Nanos> parse_duration(std::string_view text);
std::string format_duration(Nanos);  // the largest unit that divides it: "1500ms", "2s"

// A percentage ("12.5%") or a fraction of one ("0.125"); at least 0.1 %, at most 100 %.
Result<Share> parse_share(std::string_view text);
std::string format_share(Share);  // "12.5%"

// B, k, M, G, T (powers of 1000) or Ki, Mi, Gi, Ti (of 1024), as in Kubernetes, where a unit may be
// left out: here it must stand, but with 0.
Result<Bytes> parse_bytes(std::string_view text);
std::string format_bytes(Bytes);  // the largest binary unit that divides it: "512Mi", "1000B"

}  // namespace sluice
