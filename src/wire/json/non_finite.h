// NaN and infinities in JSON, which cannot express them; Triton writes and reads them bare. Pure.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::wire {

struct NonFinite {
  std::string_view text;
  double value;
};
inline constexpr NonFinite kNonFinite[] = {{"NaN", std::numeric_limits<double>::quiet_NaN()},
                                           {"Infinity", std::numeric_limits<double>::infinity()},
                                           {"-Infinity", -std::numeric_limits<double>::infinity()}};

// Puts `before` and `after` around each bare NaN, Infinity and -Infinity, to make them JSON values.
// Returns nothing if there is none outside of strings.
std::optional<std::string> wrap_non_finite(std::string_view json, std::string_view before,
                                           std::string_view after);

}  // namespace sluice::wire
