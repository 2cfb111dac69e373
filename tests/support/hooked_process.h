// Tests of the hook each run in a process of their own, because they are about its first calls.
//
//   EXPECT_EQ(in_process([]() -> std::string {
//               const Hooked cuda;  // the hook, over the driver for tests
//               return cuda.call("cuCtxSynchronize") == … ? "" : "what went wrong";
//             }),
//             "");
#pragma once

#include <dlfcn.h>

#include <array>
#include <functional>
#include <string>

#include "hook/hooks.h"
#include "tests/support/recording_driver.h"

namespace sluice::hook {

inline constexpr const char* kNames[] = {
#define SLUICE_PASSED(name) #name,
#define SLUICE_HOOKED(name, symbol, version, flags) #name,
#include "hook/entry_points.inc"
#undef SLUICE_PASSED
#undef SLUICE_HOOKED
};

// Files, built beside the test program.
extern const char* const kHook;
extern const char* const kRecordingDriver;
extern const char* const kProbe;  // a program

// Returns the fault that `body` found, or how its process ended.
std::string in_process(const std::function<std::string()>& body);

using Words = std::array<unsigned long, kWords>;
using Reals = std::array<double, kReals>;

// Calls through the widest signature: an entry point does not see surplus arguments.
int call(void* function, const Words& w = {}, const Reals& r = {});

// The hook, opened as a program opens libcuda.so.1, over a driver (the test driver, or another
// file).
struct Hooked {
  explicit Hooked(const char* driver_path = kRecordingDriver);

  void* function(const std::string& name) const { return dlsym(library, name.c_str()); }
  int call(const std::string& name, const Words& words = {}, const Reals& reals = {}) const {
    return hook::call(function(name), words, reals);
  }

  void* library;
  void* driver;  // the test driver, whatever the hook has
  RecordingDriver* state;
};

}  // namespace sluice::hook
