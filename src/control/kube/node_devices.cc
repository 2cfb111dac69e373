#include "control/kube/node_devices.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/log.h"
#include "control/kube/objects.h"
#include "control/kube/pod_annotations.h"
#include "kube/time_text.h"
#include "wire/json/json.h"

namespace sluice::control {
namespace {

using kube::verb;
using nlohmann::json;

constexpr UnixMillis kAgain = 60'000;

std::string name_of(const Device& d) {
  return d.id + ": " + type_of(d).name + (d.uuid.empty() ? "" : " " + d.uuid);
}

std::string line_of(const Device& d) {
  std::string out = name_of(d);
  if (!d.fault.empty())
    out += ", fails: " + d.fault;
  else if (!d.set_apart.empty())
    out += ", set apart: " + d.set_apart;
  else if (d.drained)
    out += ", cordoned";
  return out;
}

std::vector<Device> devices_in(const json& state) {
  std::vector<Device> out;
  for (const json& one : state.value("devices", json::array()))
    if (auto d = wire::device_from(one); d.ok()) out.push_back(std::move(*d));
  return out;
}

// Returns the lines of a text that another lacks.
std::string lines_beyond(const std::string& text, const std::string& other) {
  std::string out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (("\n" + other).find("\n" + line + "\n") == other.npos)
      out += (out.empty() ? "" : ", ") + line;
  return out;
}

// What functions hold of a device, in thousandths.
int64_t held_of(const DeviceId& device, const json& state) {
  int64_t held = 0;
  for (const json& one : state.value("instances", json::array())) {
    const auto i = wire::instance_from(one);
    if (!i.ok() || i->state == InstanceState::kGone || one.value("foreign", false)) continue;
    for (const Part& part : i->parts)
      if (part.device == device) held += PodSlice{part.slice, DeviceKind::kCuda}.permille();
  }
  return held;
}

}  // namespace

json node_patch(const json& state) {
  std::string lines;
  int64_t permille = 0;
  bool has_gpus = false;
  for (const Device& d : devices_in(state)) {
    lines += (lines.empty() ? "" : "\n") + line_of(d);
    if (d.kind != DeviceKind::kCuda) continue;
    has_gpus = true;
    if (!d.drained) permille += std::max<int64_t>(kWhole.permille - held_of(d.id, state), 0);
  }
  json patch{{"metadata", {{"annotations", {{kDevicesAnnotation, lines}}}}}};
  // Without GPUs, those of an earlier life of the node are taken away.
  json& shown = patch["status"]["capacity"][kGpuResource];
  if (has_gpus) shown = std::to_string(permille);
  return patch;
}

std::string changed_devices(const std::string& before, const std::string& now) {
  const std::string gone = lines_beyond(before, now), fresh = lines_beyond(now, before);
  return (gone.empty() ? "" : "gone: " + gone) + (gone.empty() || fresh.empty() ? "" : "; ") +
         (fresh.empty() ? "" : "new: " + fresh);
}

NodeDevices::NodeDevices(std::string node, std::string file, ObjectWriter& writer)
    : node_(std::move(node)), file_(std::move(file)), writer_(writer) {
  known_ = (std::ostringstream() << std::ifstream(file_).rdbuf()).str();
}

void NodeDevices::turn(const json& state, UnixMillis wall) {
  say_faults(state, wall);
  say_changes(state, wall);
  json patch = node_patch(state);
  if (patch == shown_ && !kube::has_passed(written_, wall, kAgain)) return;
  shown_ = patch;
  written_ = wall;
  writer_.put("node", kube::Call(verb::patch, "/api/v1/nodes/" + node_ + "/status",
                                 std::move(patch), kube::kMergePatch));
}

void NodeDevices::say_faults(const json& state, UnixMillis wall) {
  for (const Device& d : devices_in(state)) {
    std::string& known = faults_[d.id];
    if (known == d.fault) continue;
    known = d.fault;
    const bool sound = d.fault.empty();
    say(d.id, sound ? "DeviceSound" : "DeviceFails",
        d.id + (sound ? " is sound again" : ": " + d.fault), sound, wall);
  }
}

// An agent without a file has had none.
void NodeDevices::say_changes(const json& state, UnixMillis wall) {
  std::string now;
  for (const Device& d : devices_in(state)) now += name_of(d) + "\n";
  if (now == known_) return;
  if (const std::string changes = changed_devices(known_, now); !known_.empty() && !changes.empty())
    say("devices", "DevicesChanged",
        "it has other devices than before: " + changes +
            ". What ran on those that are gone starts on others that fit; a function without any "
            "says so in its conditions",
        false, wall);
  known_ = now;
  if (!(std::ofstream(file_) << now << std::flush))
    log::warn("{}: cannot be written; a later agent will not know that its devices differ", file_);
}

void NodeDevices::say(const std::string& about, const std::string& reason,
                      const std::string& message, bool is_good, UnixMillis wall) {
  const std::string now = kube::second_time(wall), space = "default";  // as a kubelet's
  const std::string name = node_ + "." + about + "." + std::to_string(wall);
  json event{
      {"apiVersion", "v1"},
      {"kind", "Event"},
      {"metadata", {{"name", name}, {"namespace", space}}},
      {"involvedObject", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node_}, {"uid", node_}}},
      {"reason", reason},
      {"message", message},
      {"type", is_good ? "Normal" : "Warning"},
      {"source", {{"component", "sluice-agent"}, {"host", node_}}},
      {"firstTimestamp", now},
      {"lastTimestamp", now},
      {"count", 1}};
  writer_.put("event of " + about,
              kube::Call(verb::post, path_in("/api/v1/events", space), std::move(event)));
}

}  // namespace sluice::control
