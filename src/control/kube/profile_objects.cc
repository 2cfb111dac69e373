#include "control/kube/profile_objects.h"

#include <cstdint>
#include <cstdio>

#include "base/log.h"
#include "control/kube/objects.h"
#include "kube/wait.h"

namespace sluice::control {
namespace {

using nlohmann::json;

// One object for each name and type. FNV-1a: both may have characters that an object's name may
// not.
std::string profile_object_name(const Profile& p) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : p.name() + '\n' + p.device.name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char name[32];
  std::snprintf(name, sizeof name, "p-%016llx", static_cast<unsigned long long>(hash));
  return name;
}

// The columns of `kubectl get` beside the profile itself. Kubernetes 1.20 refuses empty texts.
json profile_spec(const Profile& p) {
  json spec{{"model", p.model},
            {"points", p.points.size()},
            {"estimated", p.estimated > 0},
            {"profile", to_json(p)}};
  if (!p.function.name.empty()) spec["function"] = to_string(p.function);
  if (!p.device.name.empty()) spec["deviceType"] = p.device.name;
  return spec;
}

}  // namespace

Result<Profiles> ProfileObjects::read() {
  SLUICE_ASSIGN(
      found, kube::run_on(client_.io(), client_.call(kube::Call(path_in(kProfilesPath, space_)))));
  Profiles out;
  for (const json& object : found.value("items", json::array())) {
    auto profile = profile_from(object.value("/spec/profile"_json_pointer, json::object()));
    if (profile.ok())
      out.set(std::move(*profile));
    else
      log::error("FunctionProfile {}: {}. Measure it again: kubectl sluice profile.",
                 object.value("/metadata/name"_json_pointer, ""), profile.error().message);
  }
  return out;
}

void ProfileObjects::save(const Profile& profile) {
  const std::string name = profile_object_name(profile);
  const std::string path = path_in(kProfilesPath, space_, name);
  writer_.put(path,
              kube::Call(kube::verb::patch, path + "?fieldManager=sluice-controller&force=true",
                         {{"apiVersion", kGroup},
                          {"kind", "FunctionProfile"},
                          {"metadata", {{"name", name}, {"namespace", space_}}},
                          {"spec", profile_spec(profile)}},
                         kube::kApply));
}

}  // namespace sluice::control
