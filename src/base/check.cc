#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace sluice {

void fail_check(const char* file, int line, const char* what, std::string_view why) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %.*s\n", file, line, what,
               static_cast<int>(why.size()), why.data());
  std::abort();
}

}  // namespace sluice
