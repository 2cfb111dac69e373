// Everything that a driver exports and the emulated one does not do: weak, so that what is done
// elsewhere in this library takes its place.
#define EXPORTED(name)                                                 \
  extern "C" __attribute__((weak, visibility("default"))) int name() { \
    return 801; /* CUDA_ERROR_NOT_SUPPORTED */                         \
  }
#define FOUND(name, version, flag, symbol)
#include "tests/emulator/symbols.inc"
