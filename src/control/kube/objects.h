// What we read of the API server's objects: no more than is used. Plain values; `parse` names what
// cannot be read.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/function.h"

namespace sluice::control {

inline constexpr const char* kGroup = "sluice.dev/v1alpha1";
inline constexpr const char* kFunctionsPath = "/apis/sluice.dev/v1alpha1/inferencefunctions";
inline constexpr const char* kTrainingPath = "/apis/sluice.dev/v1alpha1/trainingfunctions";
inline constexpr const char* kRevisionsPath = "/apis/sluice.dev/v1alpha1/functionrevisions";
inline constexpr const char* kProfilesPath = "/apis/sluice.dev/v1alpha1/functionprofiles";
inline constexpr const char* kRoutesPath = "/apis/sluice.dev/v1alpha1/functionroutes";

// "/apis/g/v1/KIND" → "/apis/g/v1/namespaces/SPACE/KIND[/NAME]".
std::string path_in(std::string_view collection, const std::string& space,
                    const std::string& name = "");

// A user's InferenceFunction or TrainingFunction.
struct FunctionObject {
  FunctionName name;
  std::string uid, kind;
  int64_t generation = 0;
  bool deleting = false;
  nlohmann::json spec, status;

  static Result<FunctionObject> parse(const nlohmann::json& object);
  // As a function file has it.
  nlohmann::json file() const;
  int64_t observed_generation() const { return status.value("observedGeneration", int64_t{0}); }
};

struct RevisionObject {
  Revision revision;

  static Result<RevisionObject> parse(const nlohmann::json& object);
};
// Of what goes with a function's object.
nlohmann::json owned_by(const std::string& name, const std::string& uid);
// `owner`: its function's object.
nlohmann::json to_object(const Revision& revision, const FunctionObject& owner);
std::string object_name(const Revision& revision);  // "resnet50-3"

inline constexpr const char* kFetching = "model";  // the init container that fetches a Pod's model

struct PodObject {
  std::string space, name, uid;
  std::map<std::string, std::string> labels, annotations;
  std::string node;   // where it is bound; empty: nowhere yet
  std::string phase;  // Pending, Running, Succeeded, Failed
  std::string ip;
  std::string reason, message;  // why it waits or has failed: its container's, else its own
  bool by_cluster = false;      // evicted, preempted or not admitted: by no fault of its container
  bool ready = false;
  bool deleting = false;
  bool prepares = false;  // its model is being fetched
  UnixMillis created = 0;
  std::vector<std::string> containers;  // ids of those that have started, without the scheme

  static Result<PodObject> parse(const nlohmann::json& object);
  std::string why() const;  // "REASON: MESSAGE"
};

struct NodeObject {
  std::string name;
  bool ready = false;
  bool has_agent = false;  // one has run there, and said what devices it has

  static Result<NodeObject> parse(const nlohmann::json& object);
};

struct NamespaceObject {
  std::string name;
  std::map<std::string, std::string> annotations;

  static Result<NamespaceObject> parse(const nlohmann::json& object);
};

// A FunctionRoute, of which its writer needs only the name.
struct RouteName {
  std::string name;

  static Result<RouteName> parse(const nlohmann::json& object);
};

inline constexpr const char* kDevicesAnnotation = "sluice.dev/devices";  // of a node

}  // namespace sluice::control
