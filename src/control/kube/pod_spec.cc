#include "control/kube/pod_spec.h"

#include <algorithm>

#include "control/kube/model_cache.h"
#include "control/kube/objects.h"
#include "control/kube/pod_additions.h"
#include "control/spec/model_url.h"
#include "model/quantity.h"
#include "model/torch_variables.h"
#include "wire/json/json.h"
#include "wire/json/model_description.h"

namespace sluice::control {
namespace {

using nlohmann::json;

constexpr Bytes kBesideModel = Bytes{256} << 20;  // what a server takes before it has a model
// A GPU's memory is filled by way of the host's, which a server of large models fills in parts.
constexpr Bytes kMostForGpu = Bytes{4} << 30;
constexpr int kGraceSeconds = 30;
constexpr const char* kFetchedModel = "/model/model.pt";
constexpr const char* kCacheInPod = "/cache";
constexpr const char* kLibraries = "libraries";  // the volume of those that another image lacks,
constexpr const char* kCopyOfLibraries = "/libraries";  // and where it is filled

json variable(const std::string& name, const std::string& value) {
  return {{"name", name}, {"value", value}};
}

// Where the server finds its model.
std::string path_in_pod(const ModelSpec& model) {
  return is_url(model.path) ? kFetchedModel : model.path;
}

// Of a model that is named by URL: it is fetched before its server starts.
json fetching(const ModelSpec& model, const PodSettings& settings) {
  const json tensors = wire::to_json(model);
  const json description{{"name", "model"},
                         {"platform", wire::kTorchscript},
                         {"inputs", tensors["inputs"]},
                         {"outputs", tensors["outputs"]}};
  return {{"name", kFetching},
          {"volumeMounts", json::array({{{"name", "cache"}, {"mountPath", kCacheInPod}}})},
          {"command",
           {settings.programs + "/sluice", "kube", "fetch", "--uri", model.path, "--sha256",
            model.sha256, "--to", kFetchedModel, "--cache", kCacheInPod, "--description",
            description.dump()}}};
}

json model_server(const PodOrder& order, const ForkOfTemplate& birth, const PodSettings& settings) {
  const Instance& i = order.instance;
  json env = json::array();
  for (const auto& [name, value] : kTorchVariables) env.push_back(variable(name, value));
  return {{"env", env},
          {"command",
           {settings.programs + "/sluice-runtime", "serve", "--model", path_in_pod(birth.model),
            "--listen", "0.0.0.0:" + std::to_string(kModelPort), "--name", i.function.name,
            "--model-version", std::to_string(i.revision), "--batch", std::to_string(i.batch),
            "--max-batch", std::to_string(birth.batching.max_size), "--max-delay-us",
            std::to_string(birth.batching.max_delay.count() / 1000)}},
          {"ports", {{{"name", "http"}, {"containerPort", kModelPort}}}}};
}

json program(const ExecOfProgram& birth) {
  const int port = birth.port.value_or(0) != 0 ? *birth.port : kModelPort;
  // First, since the others and the command may name it as $(PORT).
  json env = json::array({variable("PORT", std::to_string(port))});
  for (const auto& [name, value] : birth.environment) env.push_back(variable(name, value));
  for (const auto& [name, secret] : birth.secrets)
    env.push_back(
        {{"name", name}, {"valueFrom", {{"secretKeyRef", {{"name", secret}, {"key", "value"}}}}}});
  json out{{"command", birth.command},
           {"env", env},
           {"ports", {{{"name", "http"}, {"containerPort", port}}}}};
  if (!birth.folder.empty()) out["workingDir"] = birth.folder;
  return out;
}

// What the scheduler counts: what is guaranteed at the start. The agent holds the Pod to its quota,
// also after a resize; no limit stands in its way. Host memory that the function states is a limit,
// too, as on one machine.
json resources(const PodOrder& order) {
  Bytes memory = kBesideModel;
  double millicores = 0;
  for (const Part& part : order.instance.parts) {
    memory += order.gpu.empty() ? part.slice.memory : std::min(part.slice.memory, kMostForGpu);
    millicores += order.millicores * part.slice.sm.fraction() * part.slice.quota.request.fraction();
  }
  const int cpu = std::max(static_cast<int>(millicores), 1);
  json out{{"requests", {{"cpu", std::to_string(cpu) + "m"}, {"memory", std::to_string(memory)}}}};
  if (order.gpu.empty() && memory > kBesideModel)
    out["limits"] = {{"memory", std::to_string(memory)}};
  return out;
}

json container_of(const PodOrder& order, const PodSettings& settings) {
  const auto* exec = std::get_if<ExecOfProgram>(&order.birth);
  json c = exec != nullptr ? program(*exec)
                           : model_server(order, std::get<ForkOfTemplate>(order.birth), settings);
  c["name"] = "server";
  c["resources"] = resources(order);
  c["env"].push_back(variable("SLUICE_INSTANCE", order.instance.id));
  c["env"].push_back(variable("SLUICE_PERMIT_SOCKET", settings.permits + "/permit.sock"));
  if (!order.gpu.empty()) {
    json loader = loader_variables(c["env"], settings.programs);
    for (json& v : loader) c["env"].push_back(std::move(v));
    for (json& v : gpu_variables({{"value", order.gpu}})) c["env"].push_back(std::move(v));
  }
  c["volumeMounts"] =
      json::array({{{"name", "permits"}, {"mountPath", settings.permits}, {"readOnly", true}}});
  return c;
}

// An image of the function's own; empty: ours.
std::string own_image(const Birth& birth) {
  const auto* exec = std::get_if<ExecOfProgram>(&birth);
  return exec != nullptr ? exec->image : "";
}

// What all containers of a Pod have.
json completed(json c, const std::string& image) {
  c["image"] = image;
  c["imagePullPolicy"] = "IfNotPresent";
  c["terminationMessagePolicy"] = "FallbackToLogsOnError";  // the function's status shows it
  c["volumeMounts"].push_back({{"name", "tmp"}, {"mountPath", "/tmp"}});
  c["volumeMounts"].push_back({{"name", "model"}, {"mountPath", "/model"}});
  c["securityContext"] = {{"allowPrivilegeEscalation", false},
                          {"readOnlyRootFilesystem", true},
                          {"runAsNonRoot", true},
                          {"runAsUser", kPodUid},
                          {"runAsGroup", kPodUid},
                          {"capabilities", {{"drop", {"ALL"}}}}};
  return c;
}

// A container of another image finds our libraries where our image has them.
void bring_libraries(json& spec, const PodSettings& settings) {
  json copier{{"name", "libraries"},
              {"command", {"sh", "-c", copy_libraries(settings.programs, kCopyOfLibraries)}}};
  copier["volumeMounts"] = json::array({{{"name", kLibraries}, {"mountPath", kCopyOfLibraries}}});
  spec["initContainers"] = json::array({completed(std::move(copier), settings.image)});
  spec["containers"][0]["volumeMounts"].push_back(
      {{"name", kLibraries}, {"mountPath", settings.programs}, {"readOnly", true}});
  spec["volumes"].push_back({{"name", kLibraries}, {"emptyDir", json::object()}});
}

// The scheduler binds it to that node, if the node has room for it: `nodeName` would pass it by.
json on_node(const std::string& node) {
  const json term{
      {"matchFields", {{{"key", "metadata.name"}, {"operator", "In"}, {"values", {node}}}}}};
  return {{"nodeAffinity",
           {{"requiredDuringSchedulingIgnoredDuringExecution", {{"nodeSelectorTerms", {term}}}}}}};
}

json spec_of(const PodOrder& order, const PodSettings& settings) {
  json spec{{"affinity", on_node(order.node)},
            {"restartPolicy", "Never"},
            {"automountServiceAccountToken", false},
            {"enableServiceLinks", false},
            {"terminationGracePeriodSeconds", kGraceSeconds},
            {"securityContext", {{"fsGroup", kPodUid}}}};
  const std::string own = own_image(order.birth);
  spec["containers"] =
      json::array({completed(container_of(order, settings), own.empty() ? settings.image : own)});
  spec["volumes"] = json::array(
      {{{"name", "permits"}, {"hostPath", {{"path", settings.permits}, {"type", "Directory"}}}},
       {{"name", "tmp"}, {"emptyDir", json::object()}},
       {{"name", "model"}, {"emptyDir", json::object()}}});
  if (!own.empty() && !order.gpu.empty()) bring_libraries(spec, settings);
  const auto* fork = std::get_if<ForkOfTemplate>(&order.birth);
  if (fork == nullptr || !is_url(fork->model.path)) return spec;
  spec["initContainers"] =
      json::array({completed(fetching(fork->model, settings), settings.image)});
  spec["volumes"].push_back({{"name", "cache"}, {"hostPath", {{"path", kModelCache}}}});
  return spec;
}

}  // namespace

std::string slice_text(const Parts& parts) {
  std::string out;
  for (const Part& p : parts) {
    if (!out.empty()) out += "; ";
    out += "sm " + format_share(p.slice.sm) + ", quota " + format_share(p.slice.quota.request) +
           " to " + format_share(p.slice.quota.limit) + " of " + p.device;
  }
  return out;
}

json pod_of(const PodOrder& order, const PodSettings& settings, const std::string& owner) {
  const Instance& i = order.instance;
  json metadata{
      {"name", i.id},
      {"namespace", i.function.space},
      {"labels",
       {{"app.kubernetes.io/managed-by", "sluice"},
        {kFunctionLabel, i.function.name},
        {kRevisionLabel, std::to_string(i.revision)},
        {kInstanceLabel, i.id}}},
      {"annotations", {{kNodeAnnotation, order.node}, {kSliceAnnotation, slice_text(i.parts)}}}};
  if (!owner.empty()) metadata["ownerReferences"] = json::array({owned_by(i.function.name, owner)});
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", std::move(metadata)},
          {"spec", spec_of(order, settings)}};
}

}  // namespace sluice::control
