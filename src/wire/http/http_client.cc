#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "wire/http/http.h"
#include "wire/http/http_caller.h"

namespace sluice::wire {

struct HttpClient::State {
  State(HttpServerAddress server, Nanos timeout) : caller(io, std::move(server), timeout) {}

  asio::awaitable<void> send(HttpRequest request, Result<HttpResponse>& outcome) {
    outcome = co_await caller.send(std::move(request));
  }

  asio::io_context io{1};
  HttpCaller caller;
};

HttpClient::HttpClient(Endpoint server, Nanos timeout)
    : HttpClient(std::move(server), timeout, nullptr) {}
HttpClient::HttpClient(Endpoint server, Nanos timeout, TlsContext tls, std::string server_name)
    : state_(std::make_unique<State>(
          HttpServerAddress{std::move(server), std::move(tls), std::move(server_name)}, timeout)) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

void HttpClient::set_token(std::string bearer) {
  state_->caller.set_token(std::move(bearer));
}

Result<HttpResponse> HttpClient::send(HttpRequest request) {
  Result<HttpResponse> outcome = Error{ErrorKind::kInternal, "the call broke"};
  state_->io.restart();
  asio::co_spawn(state_->io, state_->send(std::move(request), outcome), asio::detached);
  state_->io.run();
  return outcome;
}

Result<HttpResponse> HttpClient::call(http::verb verb, std::string_view target, std::string body,
                                      std::string_view content_type) {
  HttpRequest request{verb, target, 11};
  if (!body.empty()) request.set(http::field::content_type, content_type);
  request.body() = std::move(body);
  return send(std::move(request));
}

Result<nlohmann::json> HttpClient::json(http::verb verb, std::string_view target,
                                        const nlohmann::json& body) {
  SLUICE_ASSIGN(response, send(json_request(verb, target, body)));
  return json_of(response);
}

}  // namespace sluice::wire
