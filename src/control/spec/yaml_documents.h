// The documents of an untrusted YAML text. Refuses, with the line:
//   - anchors and aliases (a few lines of them are gigabytes of nodes, or a node within itself);
//   - mappings and lists deeper than any of ours, and texts larger than any of ours;
//   - values that are no text (control characters, broken UTF-8) and could not be written again.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::control {

// `file` names the text in errors.
Result<std::vector<YAML::Node>> yaml_documents(std::string_view text, const std::string& file);

}  // namespace sluice::control
