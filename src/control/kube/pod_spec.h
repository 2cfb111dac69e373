// The Pod that holds an instance, as the controller makes it. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "control/kube/cluster_objects.h"

namespace sluice::control {

inline constexpr const char* kFunctionLabel = "sluice.dev/function";
inline constexpr const char* kRevisionLabel = "sluice.dev/revision";
inline constexpr const char* kInstanceLabel = "sluice.dev/instance";
inline constexpr const char* kNodeAnnotation = "sluice.dev/node";
inline constexpr const char* kSliceAnnotation = "sluice.dev/slice";
inline constexpr int kModelPort = 8080;

struct PodSettings {
  std::string image;                         // has sluice-runtime, the models, Python
  std::string permits = "/run/sluice";       // the folder of permit.sock on a node, and in the Pod
  std::string programs = "/usr/lib/sluice";  // in the image
};

// `owner`: the UID of its function's object, with which it goes; empty: it stays.
nlohmann::json pod_of(const PodOrder& order, const PodSettings& settings,
                      const std::string& owner = "");

// Returns a slice for people: "sm 100%, quota 30% to 50%".
std::string slice_text(const Parts& parts);

}  // namespace sluice::control
