#include "cli/profile_room.h"

#include <algorithm>
#include <string>

#include "cli/listing.h"
#include "wire/json/json.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

constexpr Share kLeastQuota{200};  // a measurement with less says little

// Returns why an instance has the device's whole width; empty if it may have a part. `row`: the
// node's of the device.
std::string why_undivided(const json& row, const Device& device) {
  std::string why = row.value("undivided", "");
  if (why.empty() && device.sm_quantum >= kWhole) why = "it cannot be divided";
  return why;
}

}  // namespace

Result<std::vector<ProfileRoom>> rooms_to_measure(const json& state, const FunctionSpec& spec) {
  std::vector<ProfileRoom> rooms;
  std::string holders;  // a line per device
  for (const json& d : state["devices"]) {
    SLUICE_ASSIGN(device, wire::device_from(d));
    if (device.drained || !spec.may_use(device)) continue;
    int64_t held = 0;
    Bytes memory = device.memory;
    std::string names;
    for (const json& i : by_part(state["instances"])) {
      if (i.value("device", "") != device.id || i.value("state", "gone") == "gone") continue;
      held += i["slice"].value("request", 0) * i["slice"].value("sm", 0) / kWhole.permille;
      memory -= i["slice"].value("memory", Bytes{0});
      names += (names.empty() ? "" : ", ") + i.value("id", "");
    }
    const Share left{static_cast<int>(std::max<int64_t>(0, kWhole.permille - held) / 10 * 10)};
    holders += "\n  " + device.id + ": " + names;
    if (left < kLeastQuota || (device.kind == DeviceKind::kCuda && memory <= 0)) continue;
    const auto same_type = [&](const ProfileRoom& r) {
      return type_of(r.device) == type_of(device);
    };
    const auto known = std::ranges::find_if(rooms, same_type);
    const ProfileRoom room{device, left, memory, why_undivided(d, device)};
    if (known == rooms.end())
      rooms.push_back(room);
    else if (left > known->quota)
      *known = room;
  }
  if (holders.empty())
    return Error{ErrorKind::kInvalid,
                 "device: there is none here that it may run on and that is not cordoned"};
  if (!rooms.empty()) return rooms;
  return Error{ErrorKind::kExhausted,
               "no device has a fifth of its time left to measure on. To make room, delete a "
               "function that holds one, or end a program of `sluice run`:" +
                   holders};
}

}  // namespace sluice::cli
