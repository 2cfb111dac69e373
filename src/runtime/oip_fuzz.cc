// Any bytes as an inference request are parsed or refused. A parsed request fits its model and can
// be answered. The first byte chooses the model and how the body is read, so that one corpus covers
// JSON, binary and raw requests.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "runtime/batch.h"
#include "runtime/oip.h"

namespace {

using namespace sluice;
using namespace sluice::runtime;

const ModelSpec kModels[] = {
    {.inputs = {{"a", "INT32", {-1, 2}}, {"b", "FP32", {-1, 2}}},
     .outputs = {{"a", "INT32", {-1, 2}}, {"b", "FP32", {-1, 2}}}},
    {.inputs = {{"t", "BYTES", {-1}}}, .outputs = {{"t", "BYTES", {-1}}}},
    {.inputs = {{"h", "FP16", {-1, -1}}}, .outputs = {{"h", "FP16", {-1, -1}}}},
    {.inputs = {{"f", "BOOL", {-1, 2, 2}}}, .outputs = {{"f", "BOOL", {-1, 2, 2}}}},
};

void check_request(const InferRequest& request, const ModelSpec& model) {
  SLUICE_CHECK(request.inputs.size() == model.inputs.size(), "inputs are the model's");
  for (const Tensor& t : request.inputs) SLUICE_CHECK(check_data(t).ok(), t.name);
  SLUICE_CHECK(!request.outputs.empty(), "a request without outputs needs no answer");

  const auto rows = inferences_of(request, model, 64);
  if (!rows.ok()) return;
  const std::vector<const std::vector<Tensor>*> twice{&request.inputs, &request.inputs};
  const std::vector<int> each{*rows, *rows};
  const auto cut = split(join(twice), each);
  SLUICE_CHECK(cut.ok() && (*cut)[1] == request.inputs, "split undoes join");

  // Every model here answers with its inputs.
  InferAnswer answer{.model_name = "m", .model_version = "1"};
  for (const RequestedOutput& o : request.outputs)
    for (const Tensor& t : request.inputs)
      if (t.name == o.name) answer.outputs.push_back(t);
  (void)encode_answer(answer, request);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ModelSpec& model = kModels[data[0] % 4];
  const int mode = data[0] / 4 % 3;
  std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);

  // Mode 1: the first line is Inference-Header-Content-Length.
  std::optional<std::string_view> header_length;
  if (mode == 1) {
    const size_t end = std::min(body.find('\n'), body.size());
    header_length = body.substr(0, end);
    body.remove_prefix(std::min(end + 1, body.size()));
  } else if (mode == 2) {
    header_length = "0";
  }
  const auto request = parse_infer(body, header_length, model);
  if (request.ok()) check_request(*request, model);
  return 0;
}
