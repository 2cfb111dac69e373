// The driver's entry points as numbers, in the order of their slots in the trampolines' table.
// Constants alone.
#pragma once

namespace sluice::hook {

enum class Entry : unsigned {
#define SLUICE_PASSED(name) name,
#define SLUICE_HOOKED(name, symbol, version, flags) name,
#include "hook/entry_points.inc"
#undef SLUICE_PASSED
#undef SLUICE_HOOKED
  kCount,
};

}  // namespace sluice::hook
