// A node's cache of models that are named by URL. The agent makes it; only the containers that
// fetch models have it, never those that serve.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::control {

inline constexpr const char* kModelCache = "/var/lib/sluice-agent/models";  // on a node

// Makes the agent's folder of it, which Pods of ours may write.
Result<void> make_model_cache(const std::string& agents_data);

}  // namespace sluice::control
