// What a Pod of a user needs for its slice, as a JSON patch of the Pod.
//
// - Every container mounts the permit socket. The label sluice.dev/sliced lets others find the Pod.
// - On a GPU the containers also preload our libraries, and see the GPU that the agent holds for
//   the Pod. It is not known yet, so an init container of our image waits until the agent has
//   written it into the Pod's annotation sluice.dev/gpu. It copies the libraries meanwhile. The
//   kubelet reads the annotation into the containers' environment when they start.
// - The scheduler counts the slice as the resource sluice.dev/gpu-permille of the first container.
//
// A variable that a container sets for the loader stays, behind ours; one that its image sets is
// not seen here. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "control/kube/pod_annotations.h"

namespace sluice::control {

inline constexpr int kPodUid = 65532;  // of the platform's own programs: no user of a node has it

struct PodAdditions {
  std::string permits = "/run/sluice";        // the folder of permit.sock on a node, and in the Pod
  std::string image;                          // has our libraries
  std::string libraries = "/usr/lib/sluice";  // where they are in it, and in the Pod
};

nlohmann::json patch_for(const nlohmann::json& pod, const PodSlice& slice,
                         const PodAdditions& additions);

// The variables of a container on a GPU, as the Pod's specification has them, but for the names of
// the GPUs. `env`: those that it has; the loader's lists among them are taken out of it, and go on
// behind ours.
nlohmann::json loader_variables(nlohmann::json& env, const std::string& libraries);
// Of CUDA, of our libraries, and of NVIDIA's container runtime, which makes the GPUs visible in the
// container. `source`: {"value": …} or {"valueFrom": …}.
nlohmann::json gpu_variables(const nlohmann::json& source);

// Returns the command, for a shell, that copies what `loader_variables` names out of our image.
std::string copy_libraries(const std::string& from, const std::string& to);

}  // namespace sluice::control
