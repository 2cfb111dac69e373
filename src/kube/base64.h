// Base64, as Secrets and kubeconfigs have it. Free functions; any thread.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::kube {

std::string to_base64(const std::string& bytes);
Result<std::string> from_base64(const std::string& text);  // kInvalid: it is none

}  // namespace sluice::kube
