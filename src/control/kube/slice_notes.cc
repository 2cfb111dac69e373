#include "control/kube/slice_notes.h"

#include "control/kube/pod_spec.h"
#include "wire/json/json.h"

namespace sluice::control {

using nlohmann::json;

void SliceNotes::turn(const json& state) {
  std::map<InstanceId, std::string> held;
  for (const json& one : state.value("instances", json::array())) {
    auto i = wire::instance_from(one);
    if (!i.ok() || one.value("foreign", false)) continue;
    for (Part& part : i->parts) part.device = node_ + "/" + part.device;
    held[i->id] = slice_text(i->parts);
  }
  for (const auto& [key, pod] : pods_.all()) {
    const auto id = pod->labels.find(kInstanceLabel);
    const auto now = id != pod->labels.end() ? held.find(id->second) : held.end();
    const auto shown = pod->annotations.find(kSliceAnnotation);
    if (now == held.end() || (shown != pod->annotations.end() && shown->second == now->second))
      continue;
    json patch{
        {"metadata", {{"uid", pod->uid}, {"annotations", {{kSliceAnnotation, now->second}}}}}};
    writer_.put(
        "slice of " + pod->uid,
        kube::Call(kube::verb::patch, path_in("/api/v1/pods", pod->space, pod->name) + "/status",
                   std::move(patch), kube::kMergePatch));
  }
}

}  // namespace sluice::control
