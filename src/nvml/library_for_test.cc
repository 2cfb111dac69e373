// An NVML of one's own, for the hook's tests: has every entry point, does nothing, and writes down
// what it was called with. What it knows lies in `library_for_test`, which a test finds by dlsym.
#include "nvml/library_for_test.h"

using sluice::hook::nvml::Call;

extern "C" {

Call library_for_test;

enum class Entry : unsigned {
#define SLUICE_PASSED(name) name,
#define SLUICE_HOOKED(name) name,
#include "nvml/entry_points.inc"
#undef SLUICE_PASSED
};

using Word = unsigned long;
#define SLUICE_PASSED(name)                                                     \
  int name(Word a, Word b, Word c, Word d, Word e, Word f) {                    \
    library_for_test = {{a, b, c, d, e, f}};                                    \
    return sluice::hook::nvml::returned_by(static_cast<unsigned>(Entry::name)); \
  }
#undef SLUICE_HOOKED
#define SLUICE_HOOKED(name) SLUICE_PASSED(name)
#include "nvml/entry_points.inc"

}  // extern "C"
