#include <algorithm>

#include "runtime/oip.h"
#include "runtime/oip_json.h"

namespace sluice::runtime {
namespace {

Result<void> write_output(const Tensor& t, bool binary, std::string& json) {
  json += "{\"name\":";
  write_json_text(t.name, json);
  json += ",\"datatype\":\"";
  json += to_string(t.datatype);
  json += "\",\"shape\":" + to_string(t.shape);
  if (binary) {
    json += ",\"parameters\":{\"binary_data_size\":" + std::to_string(t.data.size()) + "}}";
    return {};
  }
  json += ",\"data\":";
  SLUICE_TRY(write_json_data(t, json));
  json += '}';
  return {};
}

}  // namespace

Result<EncodedAnswer> encode_answer(const InferAnswer& answer, const InferRequest& request) {
  SLUICE_CHECK(answer.outputs.size() == request.outputs.size(), "outputs are the request's");
  std::string json = "{\"model_name\":";
  write_json_text(answer.model_name, json);
  json += ",\"model_version\":";
  write_json_text(answer.model_version, json);
  if (request.id) {
    json += ",\"id\":";
    write_json_text(*request.id, json);
  }
  json += ",\"outputs\":[";
  for (size_t i = 0; i < answer.outputs.size(); ++i) {
    if (i > 0) json += ',';
    SLUICE_TRY(write_output(answer.outputs[i], request.outputs[i].binary, json));
  }
  json += "]}";

  EncodedAnswer encoded{.body = std::move(json)};
  if (std::ranges::any_of(request.outputs, &RequestedOutput::binary))
    encoded.header_length = encoded.body.size();
  for (size_t i = 0; i < answer.outputs.size(); ++i)
    if (request.outputs[i].binary) encoded.body += answer.outputs[i].data;
  return encoded;
}

}  // namespace sluice::runtime
