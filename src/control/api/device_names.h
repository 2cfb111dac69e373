// Names of devices as users write them. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/device.h"

namespace sluice::control {

// Returns the device that a user means: by its id; by "NODE/NAME", also where ids are short, as on
// one machine; by the name behind the slash, if no other node has a device of that name. Returns
// kNotFound with the existing devices, or kInvalid with the devices of that name.
Result<DeviceId> device_named(const std::vector<Device>& devices, const std::string& text);

}  // namespace sluice::control
