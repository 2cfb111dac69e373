// CHECK: a broken invariant is our own bug; the process prints where and ends. For faults of the
// outside world return a Result instead. Never used in code that runs inside a user's program.
#pragma once

#include <string_view>

namespace sluice {
[[noreturn]] void fail_check(const char* file, int line, const char* what, std::string_view why);
}

#define SLUICE_CHECK(condition, why)                             \
  do {                                                           \
    if (!(condition)) [[unlikely]]                               \
      ::sluice::fail_check(__FILE__, __LINE__, #condition, why); \
  } while (false)
