// The folder of the demonstration models (tools/make_models), unless `--models DIR` names another.
#pragma once

#include <cstdlib>
#include <string>

#include "bench/report.h"

namespace sluice::bench {

inline std::string models_directory(int argc, char** argv) {
  if (const std::string given = text_argument(argc, argv, "--models"); !given.empty()) return given;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base = cache != nullptr && *cache != 0
                               ? cache
                               : std::string(home != nullptr ? home : "") + "/.cache";
  return base + "/sluice/models";
}

}  // namespace sluice::bench
