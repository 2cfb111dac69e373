#include "control/kube/pod_additions.h"

#include <algorithm>

namespace sluice::control {
namespace {

using nlohmann::json;

constexpr const char* kSliced = "sluice.dev~1sliced";  // a label, as a JSON pointer has it
constexpr const char* kCopies = "/libraries";          // in the init container, as the next
constexpr const char* kDeviceFile = "/device/uuid";
// NVIDIA's images name these folders; a list of ours takes the place of theirs.
constexpr const char* kUsualLibraries = "/usr/local/nvidia/lib:/usr/local/nvidia/lib64";

json add(const std::string& path, json value) {
  return {{"op", "add"}, {"path", path}, {"value", std::move(value)}};
}

json items_of(const json& owner, const char* name) {
  const json found = owner.value(name, json());
  return found.is_array() ? found : json::array();
}

json volume_mount(const char* volume, const std::string& at, bool read_only = true) {
  return {{"name", volume}, {"mountPath", at}, {"readOnly", read_only}};
}

json volumes_for(bool on_gpu, const PodAdditions& additions) {
  json out = json::array({{{"name", "sluice-permits"},
                           {"hostPath", {{"path", additions.permits}, {"type", "Directory"}}}}});
  if (!on_gpu) return out;
  out.push_back({{"name", "sluice-libraries"}, {"emptyDir", json::object()}});
  const std::string field = "metadata.annotations['" + std::string(kGpuAnnotation) + "']";
  json file{{"path", "uuid"}, {"fieldRef", {{"fieldPath", field}}}};
  out.push_back(
      {{"name", "sluice-device"}, {"downwardAPI", {{"items", json::array({std::move(file)})}}}});
  return out;
}

// Takes a variable with a plain value out of the list; empty: there is none.
std::string take_variable(json& env, const char* name) {
  const auto found = std::ranges::find_if(
      env, [&](const json& v) { return v.value("name", "") == name && v.contains("value"); });
  if (found == env.end()) return "";
  std::string value = found->value("value", "");
  env.erase(found);
  return value;
}

json in_slice(json container, bool on_gpu, const PodAdditions& additions) {
  json env = items_of(container, "env"), mounts = items_of(container, "volumeMounts");
  mounts.push_back(volume_mount("sluice-permits", additions.permits));
  json ours = json::array(
      {{{"name", "SLUICE_PERMIT_SOCKET"}, {"value", additions.permits + "/permit.sock"}}});
  if (on_gpu) {
    mounts.push_back(volume_mount("sluice-libraries", additions.libraries));
    const std::string field = "metadata.annotations['" + std::string(kGpuAnnotation) + "']";
    const json uuid{{"valueFrom", {{"fieldRef", {{"fieldPath", field}}}}}};
    for (json& v : gpu_variables(uuid)) ours.push_back(std::move(v));
    for (json& v : loader_variables(env, additions.libraries)) ours.push_back(std::move(v));
  }
  for (json& v : ours) env.push_back(std::move(v));
  container["env"] = std::move(env);
  container["volumeMounts"] = std::move(mounts);
  return container;
}

// It ends as soon as the kubelet shows what the agent has written.
json gpu_waiter(const PodAdditions& a) {
  const std::string copy = copy_libraries(a.libraries, kCopies);
  const std::string wait = "until [ -s " + std::string(kDeviceFile) + " ]; do sleep 0.1; done";
  json container{{"name", "sluice-gpu"},
                 {"image", a.image},
                 {"imagePullPolicy", "IfNotPresent"},
                 {"command", {"sh", "-c", "trap 'exit 1' TERM; " + copy + "; " + wait}}};
  container["volumeMounts"] = json::array(
      {volume_mount("sluice-libraries", kCopies, false), volume_mount("sluice-device", "/device")});
  const json most{{"cpu", "100m"}, {"memory", "32Mi"}};  // alike: a guaranteed Pod stays one
  container["resources"] = {{"requests", most}, {"limits", most}};
  container["securityContext"] = {{"allowPrivilegeEscalation", false},
                                  {"readOnlyRootFilesystem", true},
                                  {"runAsNonRoot", true},
                                  {"runAsUser", kPodUid},
                                  {"runAsGroup", kPodUid},
                                  {"capabilities", {{"drop", {"ALL"}}}}};
  return container;
}

void count_gpu(json& container, const PodSlice& slice) {
  for (const char* list : {"requests", "limits"})
    container["resources"][list][kGpuResource] = std::to_string(slice.permille());
}

}  // namespace

std::string copy_libraries(const std::string& from, const std::string& to) {
  return "cp -r " + from + "/libsluice_cuda.so " + from + "/libsluice_nvml.so " + from +
         "/driver " + to;
}

json gpu_variables(const json& source) {
  json out = json::array();
  for (const char* name :
       {"CUDA_VISIBLE_DEVICES", "SLUICE_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}) {
    out.push_back({{"name", name}});
    out.back().update(source);
  }
  out.push_back({{"name", "NVIDIA_DRIVER_CAPABILITIES"}, {"value", "compute,utility"}});
  return out;
}

json loader_variables(json& env, const std::string& libraries) {
  std::string preload = libraries + "/libsluice_cuda.so:" + libraries + "/libsluice_nvml.so";
  if (const std::string own = take_variable(env, "LD_PRELOAD"); !own.empty()) preload += ":" + own;
  const std::string path = take_variable(env, "LD_LIBRARY_PATH");
  return json::array(
      {{{"name", "LD_PRELOAD"}, {"value", preload}},
       {{"name", "LD_LIBRARY_PATH"},
        {"value", libraries + "/driver:" + (path.empty() ? kUsualLibraries : path)}}});
}

json patch_for(const json& pod, const PodSlice& slice, const PodAdditions& additions) {
  const json& spec = pod.at("spec");
  const bool on_gpu = slice.on_gpu();
  json volumes = items_of(spec, "volumes"), containers = json::array(), first = json::array();
  for (json& v : volumes_for(on_gpu, additions)) volumes.push_back(std::move(v));
  for (const json& c : items_of(spec, "containers"))
    containers.push_back(in_slice(c, on_gpu, additions));
  if (on_gpu && !containers.empty()) count_gpu(containers.front(), slice);
  if (on_gpu) first.push_back(gpu_waiter(additions));
  for (const json& c : items_of(spec, "initContainers"))
    first.push_back(in_slice(c, on_gpu, additions));
  json patch = json::array(
      {add("/spec/volumes", std::move(volumes)), add("/spec/containers", std::move(containers))});
  if (!first.empty()) patch.push_back(add("/spec/initContainers", std::move(first)));
  if (pod.value("/metadata/labels"_json_pointer, json()).is_object())
    patch.push_back(add("/metadata/labels/" + std::string(kSliced), "true"));
  else
    patch.push_back(add("/metadata/labels", {{"sluice.dev/sliced", "true"}}));
  return patch;
}

}  // namespace sluice::control
