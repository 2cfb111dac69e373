// The facts as our header has them.
#include "wire/cuda_abi.h"
#include "wire/cuda_abi_facts.h"

Facts facts_of_our_header() {
  Facts facts;
#include "wire/cuda_abi_facts.inc"
  return facts;
}
