#include "control/kube/admission.h"

#include <algorithm>
#include <string_view>

#include "base/printable.h"
#include "control/kube/pod_annotations.h"
#include "control/kube/pod_spec.h"
#include "kube/base64.h"
#include "model/quantity.h"

namespace sluice::control {
namespace {

using nlohmann::json;

json answer(const json& request, json response) {
  response["uid"] = request.value("uid", "");
  return {{"apiVersion", "admission.k8s.io/v1"},
          {"kind", "AdmissionReview"},
          {"response", std::move(response)}};
}

json refuse(const json& request, const std::string& why) {
  return answer(request, {{"allowed", false}, {"status", {{"code", 403}, {"message", why}}}});
}

std::map<std::string, std::string> annotations_of(const json& object) {
  std::map<std::string, std::string> out;
  if (!object.is_object()) return out;  // what is created has no old one
  const json all = object.value("/metadata/annotations"_json_pointer, json::object());
  if (all.is_object())
    for (const auto& [key, value] : all.items())
      if (value.is_string()) out[key] = value.get<std::string>();
  return out;
}

std::string value_in(const std::map<std::string, std::string>& all, const char* name) {
  const auto found = all.find(name);
  return found != all.end() ? found->second : "";
}

// Why the new annotations may not take the old ones' place; empty: they may.
std::string unchangeable(const std::map<std::string, std::string>& now,
                         const std::map<std::string, std::string>& before) {
  if (value_in(now, kGpuAnnotation) != value_in(before, kGpuAnnotation))
    return "annotation " + std::string(kGpuAnnotation) + ": the node's agent alone writes it";
  return "";
}

// A misspelt annotation would leave a Pod without its slice. Empty: all are known.
std::string unknown_annotation(const std::map<std::string, std::string>& now) {
  constexpr std::string_view kPrefix = "sluice.dev/";
  constexpr std::string_view kKnown[] = {kQuotaAnnotation,  kSmAnnotation,  kMemoryAnnotation,
                                         kDeviceAnnotation, kGpuAnnotation, kSliceAnnotation,
                                         kNodeAnnotation};
  for (const auto& [key, value] : now)
    if (key.starts_with(kPrefix) && std::ranges::find(kKnown, key) == std::end(kKnown))
      return "annotation " + printable(key, 100) +
             ": there is none of that name; quota, sm, memory " + "and device are allowed behind " +
             std::string(kPrefix);
  return "";
}

bool on_gpu(const Result<std::optional<PodSlice>>& slice) {
  return slice.ok() && *slice && (*slice)->on_gpu();
}

// By the label the Pod is found among those that count. Its user may have taken it away, or asks
// for a slice only now.
json label_patch(const json& pod) {
  json labels = pod.value("/metadata/labels"_json_pointer, json::object());
  if (labels.value(kSlicedLabel, "") == "true") return json::array();
  labels[kSlicedLabel] = "true";
  return json::array({{{"op", "add"}, {"path", "/metadata/labels"}, {"value", labels}}});
}

// Why the namespace has no room for it; empty: it has.
std::string without_room(const std::string& space, const Slice& slice, const NamespaceSlices& now) {
  if (!now.most || now.held + slice.quota.request <= *now.most) return "";
  return "annotation " + std::string(kQuotaAnnotation) + ": namespace " + space + " may hold " +
         format_share(*now.most) +
         " of a device in all (its annotation sluice.dev/most-quota), and "
         "its Pods hold " +
         format_share(now.held) + "; " + format_share(slice.quota.request) + " more is asked for";
}

}  // namespace

json admit(const json& review, const PodAdditions& additions, const SlicesOfNamespace& slices) {
  const json request = review.value("request", json::object());
  const json pod = request.value("object", json::object());
  const bool created = request.value("operation", "") == "CREATE";
  const auto now = annotations_of(pod);
  const auto before = annotations_of(request.value("oldObject", json()));
  const auto asked = slice_of(now), had = slice_of(before);
  if (!asked.ok()) return refuse(request, asked.error().message);
  if (created)
    if (const std::string why = unknown_annotation(now); !why.empty()) return refuse(request, why);
  if (const std::string why = unchangeable(now, before); !why.empty()) return refuse(request, why);
  if (!created && on_gpu(asked) != on_gpu(had))
    return refuse(request, "annotation " + std::string(kDeviceAnnotation) +
                               ": a Pod that exists stays on its kind of device; make it anew");
  if (!*asked) return answer(request, {{"allowed", true}});
  const std::string space = request.value("namespace", "");
  NamespaceSlices held = slices(space);
  if (!created && had.ok() && *had) held.held = held.held - (*had)->slice.quota.request;
  if (!held.fault.empty()) return refuse(request, held.fault);
  if (const std::string why = without_room(space, (*asked)->slice, held); !why.empty())
    return refuse(request, why);
  const json patch = created ? patch_for(pod, **asked, additions) : label_patch(pod);
  if (patch.empty()) return answer(request, {{"allowed", true}});
  return answer(
      request,
      {{"allowed", true}, {"patchType", "JSONPatch"}, {"patch", kube::to_base64(patch.dump())}});
}

}  // namespace sluice::control
