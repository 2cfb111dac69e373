// The ranges of numeric options that more than one command takes: `sluice up` refuses what the
// process behind the option would refuse.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "model/quantity.h"

namespace sluice::cli {

inline constexpr int kMostThreads = 1024;          // of the gateway
inline constexpr int kHighestUid = 2'000'000'000;  // where instances begin: some are left above
inline constexpr double kHighestPrice = 1e6;       // of a core or GPU and hour
inline constexpr size_t kLargestBody = size_t{1} << 30;  // of a request
inline constexpr int kHighestDescriptor = 1023;          // of an inherited socket

// CLI::Range of numbers would accept nan.
inline CLI::Validator number_from(double least, double most) {
  const auto check = [least, most](std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
    return "Value " + text + " not in range " + std::to_string(least) + " to " +
           std::to_string(most);
  };
  return {check, CLI::Range(least, most).get_description()};
}

// Of a path within a function that is a program.
inline std::string begins_with_slash(const std::string& path) {
  return path.starts_with('/') ? "" : "'" + path + "' does not begin with /";
}

// Reads a share as in function files, "30%" or "0.3", or a whole number of per cent, "30"; turns it
// into permille.
inline CLI::Validator share_in_permille() {
  const auto turn = [](std::string& text) -> std::string {
    const bool whole = text.find_first_not_of("0123456789") == std::string::npos;
    const Result<Share> share = sluice::parse_share(whole ? text + "%" : text);
    if (!share.ok()) return share.error().message;
    text = std::to_string(share->permille);
    return {};
  };
  return {turn, ""};
}

}  // namespace sluice::cli
