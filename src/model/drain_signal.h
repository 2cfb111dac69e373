// The signals that may ask a program to finish and leave, by name. Constants; any thread.
#pragma once

#include <csignal>
#include <iterator>
#include <string_view>

namespace sluice {

inline constexpr std::string_view kDrainSignals[] = {"SIGTERM", "SIGINT",  "SIGQUIT",
                                                     "SIGHUP",  "SIGUSR1", "SIGUSR2"};

// Returns its number; 0 for another name.
constexpr int signal_named(std::string_view name) {
  constexpr int kNumbers[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};
  for (size_t i = 0; i < std::size(kNumbers); ++i)
    if (name == kDrainSignals[i]) return kNumbers[i];
  return 0;
}

}  // namespace sluice
