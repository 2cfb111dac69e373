// The facts as our header has them.
#include "abi/cuda_abi.h"
#include "abi/cuda_abi_facts.h"

Facts facts_of_our_header() {
  Facts facts;
#include "abi/cuda_abi_facts.inc"
  return facts;
}
