// The slices of all devices as bars, for `top` and the quickstart: each instance's request, its use
// within it, and what it borrows. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::cli {

// Rows of GET /v1/devices and GET /v1/instances. One line per instance, by device:
//   cpu0    40% reserved  resnet50-1-ab12c    40% of at most 100%  uses  55%  ████████▓▓▓·········
// A program of `sluice run` that uses more than its limit is marked "above its limit".
// █ used within the request, ░ requested and idle, ▓ borrowed, · could be borrowed.
std::string slices_view(const nlohmann::json& devices, const nlohmann::json& instances);

}  // namespace sluice::cli
