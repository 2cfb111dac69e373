// Reads arbitrary bytes as Triton's config.pbtxt.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "control/spec/triton_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)sluice::control::triton_config({reinterpret_cast<const char*>(data), size});
  return 0;
}
