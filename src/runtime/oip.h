// The Open Inference Protocol over REST ("KServe v2") with the binary tensor extension: bytes of an
// inference request to values, and values to bytes of an answer. Strict: whatever is not exactly
// right is kInvalid, with a message that names it. Pure; a request is as large as its body.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/function.h"
#include "runtime/tensor.h"

namespace sluice::runtime {

struct RequestedOutput {
  std::string name;
  bool binary = false;

  bool operator==(const RequestedOutput&) const = default;
};

struct InferRequest {
  std::optional<std::string> id;
  std::vector<Tensor> inputs;            // in the order of the model's
  std::vector<RequestedOutput> outputs;  // never empty: all of the model's if none was named
};

// `header_length` is Inference-Header-Content-Length: how much of the body is JSON, the rest being
// binary tensors; 0 means that the body is the model's only input itself. Without it all is JSON.
// What comes back fits the model: names, datatypes, shapes, and every tensor has its data.
Result<InferRequest> parse_infer(std::string_view body,
                                 std::optional<std::string_view> header_length,
                                 const ModelSpec& model);

struct InferAnswer {
  std::string model_name;
  std::string model_version;
  std::vector<Tensor> outputs;  // in the order of the request's
};

struct EncodedAnswer {
  std::string body;
  std::optional<size_t> header_length;  // set when binary tensors follow the JSON
};

// kInvalid where JSON cannot carry an output (FP16, bytes that are no text). NaN and infinity are
// written as Triton does: NaN, Infinity, -Infinity.
Result<EncodedAnswer> encode_answer(const InferAnswer&, const InferRequest&);

}  // namespace sluice::runtime
