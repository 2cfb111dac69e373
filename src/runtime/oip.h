// The Open Inference Protocol over REST ("KServe v2") with the binary tensor extension: request
// bytes to values, and values to answer bytes. Strict: anything inexact is kInvalid, with a message
// that names it. Pure; a request is as large as its body.
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
  std::vector<Tensor> inputs;  // in the order of the model's
  // Never empty: all of the model's if the request names none.
  std::vector<RequestedOutput> outputs;
};

// `header_length` is Inference-Header-Content-Length: how much of the body is JSON, before binary
// tensors. 0 means that the body itself is the model's only input. Without it all is JSON. The
// result fits the model: names, datatypes, shapes, and every tensor has its data.
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

// Returns kInvalid if JSON cannot carry an output (FP16, bytes that are no text). Writes NaN and
// infinity as Triton does: NaN, Infinity, -Infinity.
Result<EncodedAnswer> encode_answer(const InferAnswer&, const InferRequest&);

}  // namespace sluice::runtime
