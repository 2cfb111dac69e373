#include "cli/cluster_api.h"

#include <fstream>

#include "kube/base64.h"
#include "kube/client.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

constexpr Nanos kTimeout = Seconds(15);

// Of the API server's own refusals, which have Kubernetes' form.
Error refused_by_server(int status, const std::string& body) {
  const json parsed = json::parse(body, nullptr, false);
  return {kube::error_kind(status),
          parsed.is_object() ? kube::message_of(parsed)
                             : "the API server answered " + std::to_string(status) + ": " + body};
}

}  // namespace

Result<std::shared_ptr<ClusterApi>> ClusterApi::open(const kube::Config& config,
                                                     std::string space) {
  wire::TlsContext tls;
  if (config.tls) {
    SLUICE_ASSIGN(context, wire::client_context(config.shows));
    tls = std::move(context);
  }
  std::shared_ptr<ClusterApi> api(new ClusterApi(config, std::move(space), std::move(tls)));
  SLUICE_ASSIGN(token, api->read_token());
  api->token_ = std::move(token);
  return api;
}

std::string ClusterApi::name() const {
  return "the cluster at " + wire::to_string(config_.server);
}

wire::HttpClient ClusterApi::client(Nanos timeout) const {
  wire::HttpClient http =
      config_.tls ? wire::HttpClient(config_.server, timeout, tls_, config_.shows.server_name)
                  : wire::HttpClient(config_.server, timeout);
  std::string token = config_.token;
  if (!config_.token_file.empty()) std::ifstream(config_.token_file) >> token;
  if (!token.empty()) http.set_token(token);
  return http;
}

Result<std::string> ClusterApi::read_token() const {
  SLUICE_ASSIGN(
      answer, client(kTimeout).call(wire::http::verb::get,
                                    "/api/v1/namespaces/" + space_ + "/secrets/sluice-api-token"));
  if (answer.result_int() == 404)
    return Error{ErrorKind::kUnavailable,
                 "no platform runs in namespace " + space_ + " of " + name() +
                     " (no Secret sluice-api-token); install it: kubectl apply -k deploy"};
  if (answer.result_int() != 200)
    return refused_by_server(static_cast<int>(answer.result_int()), answer.body());
  const json secret = json::parse(answer.body(), nullptr, false);
  return kube::from_base64(secret.value("/data/token"_json_pointer, ""));
}

Result<wire::HttpResponse> ClusterApi::call(wire::http::verb method, const std::string& target,
                                            std::string body, std::string_view type,
                                            Nanos timeout) const {
  wire::HttpRequest request{
      method,
      "/api/v1/namespaces/" + space_ + "/services/https:sluice-controller:7443/proxy" + target, 11};
  request.set("X-Sluice-Token", token_);
  if (!body.empty()) request.set(wire::http::field::content_type, std::string(type));
  request.body() = std::move(body);
  return client(timeout).send(std::move(request));
}

}  // namespace sluice::cli
