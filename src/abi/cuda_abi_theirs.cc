// The facts as cuda.h has them; with all versions of all functions, under their exported names.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cstddef>

#include "abi/cuda_abi_facts.h"

Facts facts_of_cuda_h() {
  Facts facts;
#include "abi/cuda_abi_facts.inc"
  return facts;
}
