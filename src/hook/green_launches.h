// Launches on the SMs of the slice (green_streams.h): in the place of the driver's own functions,
// where the node daemon has asked for it when it started the program, and nowhere else. So who has
// not been asked pays nothing: the hook's launches jump to the driver as ever.
#pragma once

#include "hook/entry_points.h"

namespace sluice::hook {

// What the slot of an entry point is to lead to: the driver's function, or what launches with it.
void* launched_by(Entry entry, void* driver_function);

}  // namespace sluice::hook
