#include "control/peers/node_report.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "wire/json/json.h"

namespace sluice::control {
namespace {

using nlohmann::json;
using wire::Fields;

constexpr int64_t kMostOfNode = INT64_MAX;

Result<ObservedInstance> instance_from(const json& j) {
  SLUICE_ASSIGN(instance, wire::instance_from(j));
  Fields f(j, "instance");
  ObservedInstance o{.instance = instance};
  o.foreign = f.boolean("foreign", false);
  o.address = f.text("socket");
  o.pid = f.integer("pid", 0, 0, kMostOfNode);
  o.start_time = static_cast<uint64_t>(f.integer("start_time", 0, 0, kMostOfNode));
  o.ready_after_ms = f.integer("ready_after_ms", 0, 0, kMostOfNode);
  o.used = Nanos(f.integer("used_ns", 0, 0, kMostOfNode));
  o.outside = Nanos(f.integer("outside_ns", 0, 0, kMostOfNode));
  o.ungated = Nanos(f.integer("ungated_ns", 0, 0, kMostOfNode));
  o.peak_memory = f.integer("peak_memory", 0, 0, kMostOfNode);
  if (f.child("memory_held") != nullptr)
    o.memory_held = f.integer("memory_held", 0, 0, kMostOfNode);
  o.device_fault = f.text("device_fault");
  o.error = f.text("error");
  o.ended = f.integer("ended", 0, 0, kMostOfNode);
  o.stopped = f.boolean("stopped", false);
  o.node_fault = f.boolean("node_fault", false);
  return f.finish(o);
}

// Returns a list's items in place; none if there is no list.
const json& listed_items(Fields& f, std::string_view key) {
  static const json kNone = json::array();
  const json* list = f.child(key);
  return list != nullptr && list->is_array() ? *list : kNone;
}

LinkTier tier_of(const DeviceLink& l) {
  return l.nvlinks > 0 ? LinkTier::kNvlink : LinkTier::kPcie;
}

// Returns the node that the daemon reports, without the bandwidth of links.
// REQUIRES: `devices` is sorted.
Node node_of(const std::vector<Device>& devices, std::string boot_id) {
  Node n{.name = devices.empty() ? "" : devices.front().node, .boot_id = std::move(boot_id)};
  for (const Device& d : devices) {
    n.devices.push_back(d.id);
    for (const DeviceLink& l : d.links) n.links.push_back({d.id, l.to, tier_of(l)});
  }
  return n;
}

void add_device(const json& item, NodeReport& report) {
  const auto device = wire::device_from(item);
  if (!device.ok()) return log::warn("node: {}", device.error().message);
  report.devices.push_back(*device);
  if (!item.contains("busy_percent")) return;
  Fields load(item, "device");
  report.loads[device->id] = {static_cast<int>(load.integer("busy_percent", 0, 0, 100)),
                              load.integer("memory_used", 0, 0, kMostOfNode)};
}

}  // namespace

NodeReport node_report_from(const json& state) {
  NodeReport report;
  Fields f(state, "state");
  for (const json& item : listed_items(f, "devices")) add_device(item, report);
  std::ranges::sort(report.devices, {}, &Device::id);
  report.node.node = node_of(report.devices, f.text("boot_id"));
  report.node.backstop = f.boolean("backstop", true);
  report.node.enforcement = f.text("enforcement");
  for (const json& item : listed_items(f, "instances")) {
    auto instance = instance_from(item);
    if (instance.ok()) {
      instance->node = report.node.node.name;
      report.instances.push_back(std::move(*instance));
    } else {
      log::warn("node: {}", instance.error().message);
    }
  }
  return report;
}

namespace {
// "cuda0" becomes "NODE/cuda0", once.
void qualify(DeviceId& device, const std::string& prefix) {
  if (!device.starts_with(prefix)) device.insert(0, prefix);
}
}  // namespace

void name_in_cluster(NodeReport& report, const std::string& node) {
  const std::string prefix = node + "/";
  report.node.node.name = node;
  for (DeviceId& d : report.node.node.devices) qualify(d, prefix);
  for (Interconnect& link : report.node.node.links) {
    qualify(link.from, prefix);
    qualify(link.to, prefix);
  }
  for (Device& d : report.devices) {
    d.node = node;
    qualify(d.id, prefix);
    for (DeviceLink& link : d.links) qualify(link.to, prefix);
  }
  std::map<DeviceId, DeviceLoad> loads;
  for (const auto& [device, load] : report.loads) {
    DeviceId id = device;
    qualify(id, prefix);
    loads.emplace(std::move(id), load);
  }
  report.loads = std::move(loads);
  for (ObservedInstance& o : report.instances) {
    o.node = node;
    for (Part& part : o.instance.parts) qualify(part.device, prefix);
  }
}

std::string name_on_node(const DeviceId& device, const std::string& node) {
  return device.starts_with(node + "/") ? device.substr(node.size() + 1) : device;
}

}  // namespace sluice::control
