#include "control/kube/objects.h"

#include "base/printable.h"
#include "kube/time_text.h"
#include "wire/json/function_json.h"

namespace sluice::control {
namespace {

using nlohmann::json;

std::string text_in(const json& object, const char* pointer) {
  const json value = object.value(json::json_pointer(pointer), json());
  return value.is_string() ? value.get<std::string>() : "";
}

std::map<std::string, std::string> texts_in(const json& object, const char* pointer) {
  std::map<std::string, std::string> out;
  const json all = object.value(json::json_pointer(pointer), json::object());
  if (!all.is_object()) return out;
  for (const auto& [key, value] : all.items())
    if (value.is_string()) out[key] = value.get<std::string>();
  return out;
}

json list_in(const json& object, const char* pointer) {
  json all = object.value(json::json_pointer(pointer), json::array());
  return all.is_array() ? all : json::array();
}

struct Why {
  std::string reason, message;
};

Why why_in(const json& state) {
  return {text_in(state, "/reason"), printable(text_in(state, "/message"))};
}

// Why a container waits, or has ended; empty: it runs. One that fetches a model is to end well.
Why why_of_container(const json& state, bool is_to_end) {
  if (state.contains("waiting")) return why_in(state["waiting"]);
  const json terminated = state.value("terminated", json());
  if (!terminated.is_object()) return {};
  const int code = terminated.value("exitCode", 0);
  if (is_to_end && code == 0) return {};
  Why end = why_in(terminated);
  end.reason += " (exit code " + std::to_string(code) + ")";
  return end;
}

// Of its containers, or of its scheduling, or of itself.
Why why_of(const json& pod) {
  if (Why own = why_in(pod.value("status", json::object())); !own.reason.empty()) return own;
  for (const char* list : {"/status/initContainerStatuses", "/status/containerStatuses"})
    for (const json& c : list_in(pod, list))
      if (Why why = why_of_container(c.value("state", json::object()),
                                     list == std::string_view("/status/initContainerStatuses"));
          !why.reason.empty())
        return why;
  for (const json& c : list_in(pod, "/status/conditions"))
    if (text_in(c, "/type") == "PodScheduled" && text_in(c, "/status") == "False") return why_in(c);
  return {};
}

bool is_true(const json& object, const std::string& type) {
  for (const json& c : list_in(object, "/status/conditions"))
    if (text_in(c, "/type") == type) return text_in(c, "/status") == "True";
  return false;
}

}  // namespace

std::string path_in(std::string_view collection, const std::string& space,
                    const std::string& name) {
  const size_t kind = collection.rfind('/');
  std::string out(collection.substr(0, kind));
  if (!space.empty()) out += "/namespaces/" + space;
  out += collection.substr(kind);
  return name.empty() ? out : out + "/" + name;
}

Result<FunctionObject> FunctionObject::parse(const json& o) {
  FunctionObject f;
  f.name = {text_in(o, "/metadata/namespace"), text_in(o, "/metadata/name")};
  f.uid = text_in(o, "/metadata/uid");
  f.kind = text_in(o, "/kind");
  f.generation = o.value("/metadata/generation"_json_pointer, int64_t{0});
  f.deleting = !text_in(o, "/metadata/deletionTimestamp").empty();
  f.spec = o.value("spec", json::object());
  f.status = o.value("status", json::object());
  if (!f.status.is_object()) f.status = json::object();
  return f;
}

json FunctionObject::file() const {
  return {{"apiVersion", kGroup},
          {"kind", kind.empty() ? "InferenceFunction" : kind},
          {"metadata", {{"name", name.name}, {"namespace", name.space}}},
          {"spec", spec}};
}

std::string object_name(const Revision& revision) {
  return revision.function.name + "-" + std::to_string(revision.number);
}

Result<RevisionObject> RevisionObject::parse(const json& o) {
  const json spec = o.value("spec", json::object());
  Revision r;
  r.function = {text_in(o, "/metadata/namespace"), text_in(spec, "/function")};
  r.number = spec.value("number", 0);
  r.created = spec.value("created", UnixMillis{0});
  auto read = wire::function_spec_from(spec.value("specification", json::object()));
  if (!read.ok()) return within(to_string(r.function), read.error());
  r.spec = std::move(*read);
  return RevisionObject{std::move(r)};
}

json owned_by(const std::string& name, const std::string& uid) {
  return {{"apiVersion", kGroup},
          {"kind", "InferenceFunction"},
          {"name", name},
          {"uid", uid},
          {"controller", true}};
}

json to_object(const Revision& r, const FunctionObject& owner) {
  return {{"apiVersion", kGroup},
          {"kind", "FunctionRevision"},
          {"metadata",
           {{"name", object_name(r)},
            {"namespace", r.function.space},
            {"labels", {{"sluice.dev/function", r.function.name}}},
            {"ownerReferences", json::array({owned_by(owner.name.name, owner.uid)})}}},
          {"spec",
           {{"function", r.function.name},
            {"number", r.number},
            {"created", r.created},
            {"specification", wire::to_json(r.spec)}}}};
}

Result<PodObject> PodObject::parse(const json& o) {
  PodObject p;
  p.space = text_in(o, "/metadata/namespace");
  p.name = text_in(o, "/metadata/name");
  p.uid = text_in(o, "/metadata/uid");
  p.labels = texts_in(o, "/metadata/labels");
  p.annotations = texts_in(o, "/metadata/annotations");
  p.node = text_in(o, "/spec/nodeName");
  p.phase = text_in(o, "/status/phase");
  p.ip = text_in(o, "/status/podIP");
  const Why why = why_of(o);
  p.reason = why.reason;
  p.message = why.message;
  p.by_cluster = p.phase == "Failed" && !text_in(o, "/status/reason").empty();
  p.ready = is_true(o, "Ready");
  p.deleting = !text_in(o, "/metadata/deletionTimestamp").empty();
  p.created = kube::unix_millis(text_in(o, "/metadata/creationTimestamp"));
  for (const json& c : list_in(o, "/status/initContainerStatuses"))
    p.prepares |=
        text_in(c, "/name") == kFetching && c.value("state", json::object()).contains("running");
  for (const json& c : list_in(o, "/status/containerStatuses"))
    if (const std::string id = text_in(c, "/containerID"); !id.empty())
      p.containers.push_back(id.substr(id.rfind('/') + 1));
  return p;
}

std::string PodObject::why() const {
  return reason + (reason.empty() || message.empty() ? "" : ": ") + message;
}

Result<NodeObject> NodeObject::parse(const json& o) {
  return NodeObject{text_in(o, "/metadata/name"), is_true(o, "Ready"),
                    texts_in(o, "/metadata/annotations").contains(kDevicesAnnotation)};
}

Result<NamespaceObject> NamespaceObject::parse(const json& o) {
  return NamespaceObject{text_in(o, "/metadata/name"), texts_in(o, "/metadata/annotations")};
}

Result<RouteName> RouteName::parse(const json& o) {
  return RouteName{text_in(o, "/metadata/name")};
}

}  // namespace sluice::control
