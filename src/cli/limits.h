// What numeric options of more than one command allow: `sluice up` refuses what the process that it
// hands the option to would refuse.
#pragma once

namespace sluice::cli {

inline constexpr int kMostDevices = 1024;
inline constexpr int kMostThreads = 1024;        // of the gateway
inline constexpr double kHighestPrice = 1e6;     // of a core and hour
inline constexpr int kHighestDescriptor = 1023;  // of an inherited socket

}  // namespace sluice::cli
