// The C API's errors equal ours, code for code: both sides of the model store's socket translate
// here.
#pragma once

#include <algorithm>
#include <iterator>

#include "base/result.h"
#include "wire/model_store.h"

namespace sluice::wire {

inline constexpr ErrorKind kStoreErrors[] = {  // from SLUICE_INVALID on
    ErrorKind::kInvalid,   ErrorKind::kDenied,      ErrorKind::kNotFound, ErrorKind::kConflict,
    ErrorKind::kExhausted, ErrorKind::kUnavailable, ErrorKind::kTimeout,  ErrorKind::kInternal};
static_assert(SLUICE_INVALID + std::size(kStoreErrors) == SLUICE_FAULT + 1);

inline enum sluice_error store_error_of(ErrorKind kind) {
  const auto at = std::ranges::find(kStoreErrors, kind) - std::begin(kStoreErrors);
  return static_cast<enum sluice_error>(SLUICE_INVALID + at);
}

// A code that no version of ours sends is kInternal.
inline ErrorKind error_kind_of(uint32_t code) {
  return code >= SLUICE_INVALID && code <= SLUICE_FAULT ? kStoreErrors[code - SLUICE_INVALID]
                                                        : ErrorKind::kInternal;
}

}  // namespace sluice::wire
