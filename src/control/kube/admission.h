// Admission of Pods that ask for a slice: what the API server asks before it takes a Pod, and what
// it is answered (admission.k8s.io/v1). A Pod without our annotations is let through as it is.
// Pure.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "control/kube/pod_additions.h"
#include "model/slice.h"

namespace sluice::control {

inline constexpr const char* kSlicedLabel = "sluice.dev/sliced";  // "true": a Pod with a slice

// What the Pods of a namespace hold by their annotations, and the most that they may; nothing: any.
struct NamespaceSlices {
  Share held;
  std::optional<Share> most;
  std::string fault{};  // the namespace's own annotation cannot be read; empty: it can
};
using SlicesOfNamespace = std::function<NamespaceSlices(const std::string& space)>;

// `review`: an AdmissionReview with a request. A Pod whose annotations cannot be read, or whose
// namespace has no room for its quota or a limit that cannot be read, is refused with a sentence.
// So is a change of the kind of device, or of what the agent writes. What is let through has
// kSlicedLabel.
nlohmann::json admit(const nlohmann::json& review, const PodAdditions& additions,
                     const SlicesOfNamespace& slices);

}  // namespace sluice::control
