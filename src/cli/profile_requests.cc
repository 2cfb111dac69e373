#include "cli/profile_requests.h"

#include "cli/payload.h"
#include "model/server_kind.h"
#include "wire/json/json.h"
#include "wire/json/model_description.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

wire::HttpRequest request_with(const std::string& served, const Payload& payload) {
  wire::HttpRequest request{verb::post, "/v2/models/" + served + "/infer", 11};
  request.set("Inference-Header-Content-Length", std::to_string(payload.json_bytes));
  request.set(wire::http::field::content_type, "application/octet-stream");
  request.body() = payload.body;
  return request;
}

// Of a program: a path of its own, or a body as it wants it.
wire::HttpRequest request_by_path(const Sweep& sweep, const std::string& path) {
  wire::HttpRequest request{sweep.body.empty() ? verb::get : verb::post, path, 11};
  request.body() = sweep.body;
  return request;
}

// Returns the inputs that a program of the protocol describes.
Result<json> described_inputs(wire::HttpClient& instance, const std::string& served) {
  const auto described = instance.json(verb::get, "/v2/models/" + served);
  json inputs = json::array();
  if (!described.ok() || !described->is_object()) return inputs;
  for (const json& each : described->value("inputs", json::array())) {
    SLUICE_ASSIGN(tensor, wire::tensor_spec_from(each));
    for (const auto& [field, why] : wire::tensor_problems(tensor, wire::kTorchscript))
      return Error{ErrorKind::kInvalid, "the program's input " + field + ": " + why};
    inputs.push_back(wire::to_json(tensor));
  }
  return inputs;
}

// Returns the inputs that a request is made up for.
Result<json> inputs_to_make_up(const ModelSpec& model, const Sweep& sweep,
                               wire::HttpClient& instance, const std::string& served) {
  if (model.format == kProgram && !model.program.http && sweep.body.empty())
    return described_inputs(instance, served);
  json inputs = json::array();
  for (const TensorSpec& t : model.inputs) inputs.push_back(wire::to_json(t));
  return inputs;
}

}  // namespace

Result<ProfileRequests> ProfileRequests::open(const FunctionSpec& spec, const Sweep& sweep,
                                              const FunctionName& name,
                                              wire::HttpClient& instance) {
  const ModelSpec& model = spec.inference().model;
  const std::string served = served_name(name);
  SLUICE_ASSIGN(inputs, inputs_to_make_up(model, sweep, instance, served));
  return ProfileRequests(served, model.program.http, sweep, std::move(inputs));
}

Result<wire::HttpRequest> ProfileRequests::of(int batch) const {
  if (by_path_) return request_by_path(*sweep_, sweep_->path);
  if (!sweep_->body.empty()) return request_by_path(*sweep_, "/v2/models/" + served_ + "/infer");
  if (inputs_.empty())
    return Error{ErrorKind::kInvalid,
                 "--body: a request's JSON is wanted, for the program describes no inputs"};
  SLUICE_ASSIGN(payload, make_payload(inputs_, batch, 7));
  return request_with(served_, payload);
}

}  // namespace sluice::cli
