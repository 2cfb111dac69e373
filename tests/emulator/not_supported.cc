// Everything that a driver exports and the emulated one does not do: weak, so that what is done
// elsewhere in this library takes its place.
#define SLUICE_PASSED(name)                                            \
  extern "C" __attribute__((weak, visibility("default"))) int name() { \
    return 801; /* CUDA_ERROR_NOT_SUPPORTED */                         \
  }
#define SLUICE_HOOKED(name, ...) SLUICE_PASSED(name)
#include "hook/entry_points.inc"
