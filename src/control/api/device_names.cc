#include "control/api/device_names.h"

#include <algorithm>

#include "base/words.h"

namespace sluice::control {
namespace {

std::string name_on_node(const Device& d) {
  const std::string prefix = d.node + "/";
  return d.id.starts_with(prefix) ? d.id.substr(prefix.size()) : d.id;
}

Error no_device(const std::vector<Device>& devices, const std::string& text) {
  const std::string node = text.substr(0, text.find('/'));
  const auto on_node = [&](const Device& d) { return d.node == node; };
  if (node != text && std::ranges::none_of(devices, on_node)) {
    std::vector<std::string> nodes;
    for (const Device& d : devices)
      if (std::ranges::find(nodes, d.node) == nodes.end()) nodes.push_back(d.node);
    return {ErrorKind::kNotFound, "device '" + text + "': " + not_found("node", node, nodes)};
  }
  std::vector<std::string> all;
  for (const Device& d : devices) all.push_back(d.id);
  return {ErrorKind::kNotFound, not_found("device", text, all)};
}

}  // namespace

Result<DeviceId> device_named(const std::vector<Device>& devices, const std::string& text) {
  std::vector<std::string> meant;
  for (const Device& d : devices) {
    const std::string name = name_on_node(d);
    if (text == d.id || text == d.node + "/" + name) return d.id;
    if (text == name) meant.push_back(d.id);
  }
  if (meant.empty()) return no_device(devices, text);
  if (meant.size() == 1) return meant.front();
  return Error{ErrorKind::kInvalid, "device '" + text + "' is on several nodes: " + listed(meant)};
}

}  // namespace sluice::control
