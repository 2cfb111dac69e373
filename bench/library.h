// A library that a benchmark calls by the names of its functions. A missing one ends the program.
#pragma once

#include <dlfcn.h>

#include "base/check.h"

namespace sluice::bench {

inline void* open_library(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  SLUICE_CHECK(library != nullptr, path);
  return library;
}

template <class Function>
Function function(void* library, const char* name) {
  auto* address = reinterpret_cast<Function>(dlsym(library, name));
  SLUICE_CHECK(address != nullptr, name);
  return address;
}

}  // namespace sluice::bench
