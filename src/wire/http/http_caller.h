// HttpCaller: a client for coroutines, of one connection that is kept between calls: opened when
// needed, and again when the server closed it between two of them. HttpClient (http.h) is the same
// for a caller that blocks.
//
// Belongs to its io_context's thread. One call at a time.
#pragma once

#include <memory>
#include <string>

#include "wire/http/http_connection.h"

namespace sluice::wire {

class HttpCaller {
 public:
  HttpCaller(asio::io_context& io, HttpServerAddress server, Nanos timeout)
      : io_(io), server_(std::move(server)), timeout_(timeout) {}

  void set_token(std::string bearer) { token_ = std::move(bearer); }
  // As HttpClient's.
  asio::awaitable<Result<HttpResponse>> send(HttpRequest request);

 private:
  asio::awaitable<error_code> attempt(const HttpRequest& request, HttpResponse& response);

  asio::io_context& io_;
  const HttpServerAddress server_;
  const Nanos timeout_;
  std::string token_;
  std::unique_ptr<HttpConnection> connection_;
};

HttpRequest json_request(http::verb verb, std::string_view target, const nlohmann::json& body);
// As HttpClient::json() returns it.
Result<nlohmann::json> json_of(const HttpResponse& response);

}  // namespace sluice::wire
