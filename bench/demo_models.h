// The folder of the demonstration models (tools/make_models), unless `--models DIR` names another.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

namespace sluice::bench {

inline std::string models_directory(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::string_view(argv[i]) == "--models") return argv[i + 1];
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base = cache != nullptr && *cache != 0
                               ? cache
                               : std::string(home != nullptr ? home : "") + "/.cache";
  return base + "/sluice/models";
}

}  // namespace sluice::bench
