#include "control/notices.h"

#include <utility>

#include "base/words.h"

namespace sluice::control {
namespace {

// Returns whether a node had never answered.
bool unknown(const Observation& before, const std::string& name) {
  const ObservedNode* node = find_node(before, name);
  return node == nullptr || node->node.boot_id.empty();
}

// Returns the device for whose fault its node ends the program.
const DeviceId& failed_device(const ObservedInstance& o, const std::vector<Device>& devices) {
  for (const Part& p : o.instance.parts)
    if (const Device* d = find(devices, p.device); d != nullptr && d->fault == o.device_fault)
      return p.device;
  return o.instance.device();
}

// Returns "cuda0 and cuda1".
std::string devices_of(const Instance& i) {
  std::vector<std::string> ids;
  for (const Part& p : i.parts) ids.push_back(p.device);
  return listed(ids);
}

}  // namespace

Notices::Notices(std::map<std::string, Reason> noticed) : noticed_(std::move(noticed)) {
  for (const auto& [subject, reason] : noticed_)
    if (reason.rule == "unheld") unheld_.insert(subject);
}

std::vector<Decision> Notices::step(const Observation& before, const Observation& now,
                                    UnixMillis wall) {
  faults(before, now);
  ended(before, now);
  ungated(before, now);
  unheld(now);
  rebooted(before, now);
  for (Decision& d : found_) d.at = wall;
  return std::exchange(found_, {});
}

// A device that has begun to fail. Policies leave it like a cordoned one.
void Notices::faults(const Observation& before, const Observation& now) {
  for (const Device& d : now.devices) {
    if (d.fault.empty()) continue;
    const Device* then = find(before.devices, d.id);
    if (then != nullptr && then->fault == d.fault) continue;
    Reason why{
        "fault", "Device " + d.id + " fails: " + d.fault + ". It takes no more instances.", {}};
    if (then == nullptr && noticed(d.id, why.text)) continue;
    add({.action = "drain", .subject = d.id, .reason = std::move(why)});
  }
}

// A program that its node ends with its device. The earlier loop has reported programs that are
// gone at the first poll.
void Notices::ended(const Observation& before, const Observation& now) {
  for (const ObservedInstance& o : now.instances) {
    if (o.device_fault.empty()) continue;
    const bool first = unknown(before, o.node);
    const ObservedInstance* then = find(before.instances, o.instance.id);
    if (then != nullptr ? !then->device_fault.empty() : first && !alive(o)) continue;
    add({.action = "stop",
         .subject = o.instance.id,
         .reason = {"fault",
                    "Program " + o.instance.id + " was ended, as its device " +
                        failed_device(o, now.devices) + " fails: " + o.device_fault + ".",
                    {}}});
  }
}

// Once per instance and life of its node daemon.
void Notices::ungated(const Observation& before, const Observation& now) {
  for (const ObservedInstance& o : now.instances) {
    if (o.ungated == Nanos(0)) continue;
    const ObservedInstance* then = find(before.instances, o.instance.id);
    if (then != nullptr && then->ungated > Nanos(0)) continue;
    Reason why{"ungated",
               "A process of " + o.instance.id + " uses " + devices_of(o.instance) +
                   " past the hook, without a permit: its slice is charged, nothing stops it.",
               {}};
    if (unknown(before, o.node) && noticed(o.instance.id, why.text)) continue;
    add({.action = "notice", .subject = o.instance.id, .reason = std::move(why)});
  }
}

// A living instance that its node does not hold to its slice: reported when that begins, and when
// it ends.
void Notices::unheld(const Observation& now) {
  std::set<InstanceId> unheld;
  for (const ObservedInstance& o : now.instances) {
    if (!alive(o) || (o.error.empty() && unheld_.empty())) continue;
    const std::string& id = o.instance.id;
    if (!o.error.empty()) unheld.insert(id);
    if (unheld_.contains(id) == !o.error.empty()) continue;
    Reason why{"held", id + " is held to its slice again.", {}};
    if (!o.error.empty()) why = {"unheld", id + " is not held to its slice: " + o.error + ".", {}};
    add({.function = o.foreign ? FunctionName{.space = "", .name = ""} : o.instance.function,
         .action = "notice",
         .subject = id,
         .reason = std::move(why)});
  }
  unheld_ = std::move(unheld);
}

// A node that returns after a reboot lists nothing of what ran before.
void Notices::rebooted(const Observation& before, const Observation& now) {
  std::set<std::string> nodes;
  auto then = before.nodes.begin();
  for (const ObservedNode& n : now.nodes) {  // both are by name
    while (then != before.nodes.end() && then->node.name < n.node.name) ++then;
    if (then == before.nodes.end()) break;
    const Node& node = then->node;
    if (node.name == n.node.name && !node.boot_id.empty() && node.boot_id != n.node.boot_id)
      nodes.insert(node.name);
  }
  if (nodes.empty()) return;
  for (const ObservedInstance& o : before.instances)
    if (nodes.contains(o.node) && alive(o) && ours(o) &&
        find(now.instances, o.instance.id) == nullptr)
      add({.function = o.instance.function,
           .action = "lost",
           .subject = o.instance.id,
           .reason = {
               "node-rebooted",
               "Instance " + o.instance.id + " ended, as its node " + o.node + " was rebooted.",
               {}}});
}

bool Notices::noticed(const std::string& subject, const std::string& text) const {
  const auto last = noticed_.find(subject);
  return last != noticed_.end() && last->second.text == text;
}

void Notices::add(Decision d) {
  if (d.action == "drain") noticed_[d.subject] = d.reason;  // a device may be removed and return
  found_.push_back(std::move(d));
}

}  // namespace sluice::control
