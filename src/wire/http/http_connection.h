// A client's connection, over TCP or a unix socket, plain or with TLS: under HttpClient, and under
// clients with coroutines of their own.
//
// Belongs to its io_context's thread. One operation at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "wire/http/http.h"
#include "wire/http/http_stream.h"

namespace sluice::wire {

struct HttpServerAddress {
  Endpoint at;
  TlsContext tls{};           // null: none
  std::string server_name{};  // for which the server's certificate must be; empty: its host
  uint64_t most{};            // bytes of one answer, from a server that is not trusted; 0: any
};

class HttpConnection {
 public:
  HttpConnection(asio::io_context& io, const HttpServerAddress& server);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;

  asio::awaitable<error_code> connect(Nanos timeout);
  asio::awaitable<error_code> exchange(const HttpRequest& request, HttpResponse& response,
                                       Nanos timeout);
  // Calls `on_part` with the parts of the answer's body as they arrive, until it ends. `silent`: so
  // long there may be nothing. `head` gets the answer's status and fields.
  asio::awaitable<error_code> stream(const HttpRequest& request, HttpResponse& head,
                                     std::function<void(std::string_view part)> on_part,
                                     Nanos silent);
  // Ends the operation that runs, with an error.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::wire
