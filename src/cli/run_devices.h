// The devices from which `sluice run` may choose, by the node's state (GET /v1/state). Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/device.h"

namespace sluice::cli {

// Returns "cpu" or "cuda"; empty if there is no such device.
std::string kind_of(const nlohmann::json& state, const DeviceId& id);
// Returns those of the kind that take new slices, in the node's order.
std::vector<DeviceId> sound_devices(const nlohmann::json& state, const std::string& kind);
// Returns the device for whose fault a program of the node was ended.
DeviceId failed_device(const nlohmann::json& state, const nlohmann::json& program);
// Returns how full each device of the kind is: "cpu0 is 100% reserved, cpu1 is drained".
std::string reserved_text(const nlohmann::json& state, const std::string& kind);

}  // namespace sluice::cli
