// Outside of a slice, the library in NVML's place passes every call on unchanged.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <string>

#include "tests/support/child.h"
#include "tests/support/recording_nvml.h"

namespace sluice::hook::nvml {
namespace {

constexpr struct {
  const char* name;
  int words;  // that come through even where there are fewer: a jump has them all
} kEntries[] = {
#define SLUICE_PASSED(name) {#name, 6},
#define SLUICE_HOOKED(name) {#name, 1},
#include "nvml/entry_points.inc"
#undef SLUICE_PASSED
#undef SLUICE_HOOKED
};

// Returns what `body` prints about the library, opened in a process of its own over `real`.
std::string over(const char* real, const std::function<std::string(void*)>& body) {
  return in_child([&](int out) {
           setenv("SLUICE_NVML_LIBRARY", real, 1);
           unsetenv("SLUICE_VISIBLE_DEVICES");
           void* nvml = dlopen(SLUICE_NVML_HOOK, RTLD_NOW | RTLD_LOCAL);
           const std::string said = nvml == nullptr ? dlerror() : body(nvml);
           if (write(out, said.data(), said.size()) < 0) _exit(1);
         })
      .said;
}

template <class Result, class... Arguments>
Result call(void* library, const char* name, Arguments... arguments) {
  return reinterpret_cast<Result (*)(Arguments...)>(dlsym(library, name))(arguments...);
}

TEST(NvmlPassTest, EveryEntryPointIsTheLibrarysOwn) {
  EXPECT_EQ(over(SLUICE_RECORDING_NVML,
                 [](void* nvml) -> std::string {
                   void* real = dlopen(SLUICE_RECORDING_NVML, RTLD_NOW | RTLD_LOCAL);
                   const auto* seen = static_cast<Call*>(dlsym(real, "recording_nvml"));
                   for (unsigned i = 0; i < std::size(kEntries); ++i) {
                     const auto [name, words] = kEntries[i];
                     for (int twice = 0; twice < 2; ++twice) {  // found, and then known
                       const Call sent{{i, 2, 3, 4, 5, 6}};
                       const int result = call<int>(nvml, name, 0ul + i, 2ul, 3ul, 4ul, 5ul, 6ul);
                       if (result != returned_by(i)) return name;
                       if (!std::equal(sent.words, sent.words + words, seen->words))
                         return std::string(name) + "'s arguments";
                     }
                   }
                   return "all";
                 }),
            "all");
}

TEST(NvmlPassTest, WithoutNvmlItSaysSo) {
  EXPECT_EQ(over("/no/such",
                 [](void* nvml) {
                   return std::to_string(call<int>(nvml, "nvmlInit_v2")) + " " +
                          call<const char*>(nvml, "nvmlErrorString", 12);
                 }),
            "12 NVML was not found");
}

TEST(NvmlPassTest, WhatAnOlderDriverLacksIsNotFound) {
  EXPECT_EQ(
      over("libc.so.6", [](void* nvml) { return std::to_string(call<int>(nvml, "nvmlInit_v2")); }),
      "13");
}

}  // namespace
}  // namespace sluice::hook::nvml
