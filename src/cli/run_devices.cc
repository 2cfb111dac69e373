#include "cli/run_devices.h"

#include "base/words.h"
#include "cli/listing.h"
#include "cli/table.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

int reserved_permille(const json& state, const json& device) {
  int64_t area = 0;
  for (const json& i : by_part(state["instances"])) {
    if (i["device"] != device["id"] || i["state"] == "gone") continue;
    const json& slice = i["slice"];
    area += slice["sm"].get<int64_t>() * slice["request"].get<int64_t>();
  }
  return static_cast<int>(area / 1000);
}

}  // namespace

std::string kind_of(const json& state, const DeviceId& id) {
  for (const json& d : state["devices"])
    if (d["id"] == id) return d["kind"];
  return "";
}

std::vector<DeviceId> sound_devices(const json& state, const std::string& kind) {
  std::vector<DeviceId> ids;
  for (const json& d : state["devices"])
    if (d["kind"] == kind && !d["drained"].get<bool>()) ids.push_back(d["id"]);
  return ids;
}

DeviceId failed_device(const json& state, const json& program) {
  const json parts = by_part(json::array({program}));
  for (const json& part : parts)
    for (const json& d : state["devices"])
      if (d["id"] == part["device"] && d.value("fault", "") == program["device_fault"])
        return d["id"];
  return parts[0]["device"];  // its fault has been cleared meanwhile
}

std::string reserved_text(const json& state, const std::string& kind) {
  std::vector<std::string> each;
  for (const json& d : state["devices"]) {
    if (d["kind"] != kind) continue;
    const bool drained = d["drained"];
    each.push_back(d["id"].get<std::string>() + " is " +
                   (drained ? "drained" : percent(reserved_permille(state, d)) + " reserved"));
  }
  return listed(each, each.size());
}

}  // namespace sluice::cli
