#include "wire/http/http_caller.h"

namespace sluice::wire {

asio::awaitable<Result<HttpResponse>> HttpCaller::send(HttpRequest request) {
  request.set(http::field::host, server_.at.path.empty() ? server_.at.host : "localhost");
  if (!token_.empty()) request.set(http::field::authorization, "Bearer " + token_);
  request.prepare_payload();
  HttpResponse response;
  const bool kept = connection_ != nullptr;
  error_code fault = co_await attempt(request, response);
  // A kept connection may have been closed meanwhile: then tries once more on a fresh one.
  const bool closed = fault && fault != beast::error::timeout && fault != http::error::body_limit;
  if (closed && kept) fault = co_await attempt(request, response);
  if (!fault) co_return std::move(response);
  const bool late = fault == beast::error::timeout;
  co_return Error{late ? ErrorKind::kTimeout : ErrorKind::kUnavailable,
                  to_string(server_.at) + ": " + fault.message()};
}

asio::awaitable<error_code> HttpCaller::attempt(const HttpRequest& request,
                                                HttpResponse& response) {
  error_code fault;
  if (!connection_) {
    connection_ = std::make_unique<HttpConnection>(io_, server_);
    fault = co_await connection_->connect(timeout_);
  }
  if (!fault) fault = co_await connection_->exchange(request, response, timeout_);
  if (fault || !response.keep_alive()) connection_.reset();
  co_return fault;
}

HttpRequest json_request(http::verb verb, std::string_view target, const nlohmann::json& body) {
  HttpRequest request{verb, target, 11};
  if (body.is_null()) return request;
  request.set(http::field::content_type, "application/json");
  request.body() = body.dump();
  return request;
}

Result<nlohmann::json> json_of(const HttpResponse& response) {
  auto parsed = response.body().empty() ? Result<nlohmann::json>(nlohmann::json())
                                        : parse_json(response.body());
  if (response.result_int() / 100 == 2) return parsed;
  std::string message = response.body();
  if (parsed.ok() && parsed->is_object() && parsed->contains("error") &&
      (*parsed)["error"].is_string())
    message = (*parsed)["error"].get<std::string>();
  return Error{error_kind(static_cast<int>(response.result_int())), message};
}

}  // namespace sluice::wire
