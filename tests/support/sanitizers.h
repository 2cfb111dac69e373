// Whether the code under test was compiled with a sanitizer. A test's own source is not
// (SLUICE_PLAIN in cmake/sluice.cmake), so that macros do not tell; the process's runtime does.
#pragma once

#include <dlfcn.h>

namespace sluice {

inline bool sanitized() {
  static const bool there = dlsym(RTLD_DEFAULT, "__asan_init") != nullptr ||
                            dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr;
  return there;
}

}  // namespace sluice
