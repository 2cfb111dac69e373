// A request for a function, made from its signature: zeros or seeded values, binary tensors.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace sluice::cli {

struct Payload {
  std::string body;
  size_t json_bytes = 0;  // Inference-Header-Content-Length; 0: all of it is JSON
};

// `inputs` as in GET /v1/functions/…; variable dimensions become `batch` (the first one), and what
// `sizes` states or 16. Values are those of `sample`, if stated. The answer comes in binary, except
// with `values`. Returns kInvalid for a datatype that it cannot make up.
Result<Payload> make_payload(const nlohmann::json& inputs, int batch, uint64_t seed,
                             bool values = false);

}  // namespace sluice::cli
