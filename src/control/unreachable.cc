#include "control/unreachable.h"

#include <algorithm>

namespace sluice::control {

void keep_unreachable(const Observation& before, Observation& now) {
  if (all_nodes_there(now)) return;
  const auto away = [&](const std::string& name) {
    const ObservedNode* node = find_node(now, name);
    return node != nullptr && !node->node.reachable;
  };
  for (const Device& d : before.devices)
    if (away(d.node)) now.devices.emplace_back(d).reachable = false;
  for (const ObservedInstance& o : before.instances)
    if (away(o.node)) now.instances.emplace_back(o).reachable = false;
  std::ranges::sort(now.devices, {}, &Device::id);
  std::ranges::sort(now.instances, {},
                    [](const ObservedInstance& o) -> const InstanceId& { return o.instance.id; });
}

}  // namespace sluice::control
