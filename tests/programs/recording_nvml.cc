// An NVML for the hook's tests: has every entry point, does nothing, and records its calls. Its
// state is `recording_nvml`, which a test finds by dlsym.
#include "tests/support/recording_nvml.h"

using sluice::hook::nvml::Call;

extern "C" {

Call recording_nvml;

enum class Entry : unsigned {
#define SLUICE_PASSED(name) name,
#define SLUICE_HOOKED(name) name,
#include "nvml/entry_points.inc"
#undef SLUICE_PASSED
};

using Word = unsigned long;
#define SLUICE_PASSED(name)                                                     \
  int name(Word a, Word b, Word c, Word d, Word e, Word f) {                    \
    recording_nvml = {{a, b, c, d, e, f}};                                      \
    return sluice::hook::nvml::returned_by(static_cast<unsigned>(Entry::name)); \
  }
#undef SLUICE_HOOKED
#define SLUICE_HOOKED(name) SLUICE_PASSED(name)
#include "nvml/entry_points.inc"

}  // extern "C"
