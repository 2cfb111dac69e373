// What numeric options allow, where more than one command takes them: `sluice up` refuses what the
// process that it hands the option to would refuse.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace sluice::cli {

inline constexpr int kMostDevices = 1024;
inline constexpr int kMostThreads = 1024;          // of the gateway
inline constexpr int kHighestUid = 2'000'000'000;  // that instances begin at: some are left above
inline constexpr double kHighestPrice = 1e6;       // of a core or GPU and hour
inline constexpr size_t kLargestBody = size_t{1} << 30;  // of a request
inline constexpr int kHighestDescriptor = 1023;          // of an inherited socket

// CLI::Range of numbers, which takes nan for one within.
inline CLI::Validator number_from(double least, double most) {
  const auto check = [least, most](std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
    return "Value " + text + " not in range " + std::to_string(least) + " to " +
           std::to_string(most);
  };
  return {check, CLI::Range(least, most).get_description()};
}

}  // namespace sluice::cli
